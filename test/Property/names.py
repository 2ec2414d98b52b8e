"""Which dimensions the operators and parameters of a model have, as `--emit=nn` shows them."""
import re


class Names:
    def __init__(self, module):
        dims = {name: found.split(", ") for name, found in
                re.findall(r"^(#\w+) = #nn.dims<([^>]*)>", module, flags=re.M)}
        # (kind, path) → dimensions, name of a parameter → dimensions
        self.operators, self.parameters = {}, {}
        kind = None
        for line in module.split("\n"):
            if found := re.match(r"  func.func private @(\w+)\(", line):
                kind = found[1]
                for alias, name in re.findall(r'(#\w+)>? \{nn.parameter = "([^"]*)"', line):
                    self.parameters[name] = dims[alias]
            elif kind and (found := re.search(r'nn.path = "([^"]*)"', line)):
                known = self.operators.setdefault((kind, found[1]), [])
                for alias in re.findall(r", (#\w+)>", line):
                    known += [dim for dim in dims.get(alias, []) if dim not in known]

    def paths(self, kind):
        return [path for of, path in self.operators if of == kind]

    def kinds(self):
        return list(dict.fromkeys(kind for kind, _ in self.operators))
