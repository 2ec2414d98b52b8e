"""Random edits of a plan's text, as a person may make them: most leave a plan that can be
carried out, some do not."""
import re


class Plan:
    """The lines of a plan, and the names that may stand in them."""

    def __init__(self, text, names):
        self.lines = text.split("\n")
        self.names = names

    def text(self):
        return "\n".join(self.lines)

    def at(self, word):
        """Numbers of the lines that begin so."""
        return [i for i, line in enumerate(self.lines) if line.split()[:1] == [word]]

    def sizes(self):
        """Axis → sizes of its parts."""
        found = (re.search(r'"(\w+)" \[(.*)\]', self.lines[i]).groups() for i in self.at("plan.axis"))
        return {name: [int(size) for size in sizes.split(",")] for name, sizes in found}

    def axes(self):
        """Axes and their parts, those of the pipeline left out."""
        names = []
        for name, sizes in self.sizes().items():
            if name != "pipe":
                names += [name] if len(sizes) == 1 else [f"{name}.{i}" for i in range(len(sizes))]
        return names

    def set_axis(self, name, sizes):
        for i in self.at("plan.axis"):
            if f'"{name}"' in self.lines[i]:
                self.lines[i] = f'    plan.axis "{name}" {sizes}'

    def add(self, line):
        """A line at the end of the plan."""
        self.lines.insert(max(i for i, text in enumerate(self.lines) if text == "  }"), "    " + line)


def quoted(name):
    return f'"{name}"'


def listed(names):
    return "[" + ", ".join(map(quoted, names)) + "]"


def places(random, axes, dimensions):
    """{dimension = [axes], …}: some of the axes, each once."""
    chosen = {}
    for axis in random.sample(axes, len(axes)):
        if dimensions and random.random() < 0.7:
            chosen.setdefault(random.choice(dimensions), []).append(axis)
    return "{" + ", ".join(f"{d} = {listed(of)}" for d, of in chosen.items()) + "}"


def named(line):
    """Dimensions that a line has already."""
    return sorted(set(re.findall(r"(\w+) = \[", line)))


def drop_assignments(random, plan):
    for i in reversed(plan.at("plan.assign")):
        if random.random() < 0.3:
            del plan.lines[i]


# What operators seldom need whole.
EASY = ("batch", "sequence", "ffn", "vocab", "kv_head", "group", "model", "expert")


def change_assignments(random, plan):
    """Some operators are cut otherwise, along dimensions that they have."""
    lines = plan.at("plan.assign")
    for i in random.sample(lines, min(len(lines), random.randint(1, 6))):
        kind, path = re.match(r' *plan.assign "(\w+)" "([\w.]+)"', plan.lines[i]).groups()
        dims = [dim for dim in plan.names.operators[kind, path]
                if dim in named(plan.lines[i]) or dim in EASY[:2] or random.random() < 0.04
                or (dim in EASY and "norm" not in path and random.random() < 0.5)]
        plan.lines[i] = f"    plan.assign {quoted(kind)} {quoted(path)} " + places(random, plan.axes(), dims)


def change_parameters(random, plan):
    """Some parameters lie otherwise."""
    names = random.sample(list(plan.names.parameters), min(len(plan.names.parameters), random.randint(1, 6)))
    for name in names:
        for i in reversed(plan.at("plan.parameter")):
            if f'"{name}"' in plan.lines[i]:
                del plan.lines[i]
        dims = plan.names.parameters[name]
        line = f'plan.parameter "{name}" ' + places(random, plan.axes(), dims)
        for word in ("gradient", "optimizer"):
            if random.random() < 0.2:
                line += f" {word} " + places(random, plan.axes(), dims)
        plan.add(line)


def drop_parameters(random, plan):
    for i in reversed(plan.at("plan.parameter")):
        if random.random() < 0.3:
            del plan.lines[i]


def change_layout(random, plan):
    (i,) = plan.at("plan.layout")
    dims = random.choice((named(plan.lines[i]), ["batch", "sequence"], ["sequence"],
                          ["batch", "sequence", "model"]))
    plan.lines[i] = "    plan.layout " + places(random, plan.axes(), dims)


def swap_axes(random, plan):
    """The ranks come in another order."""
    lines = plan.at("plan.axis")
    a, b = random.choice(lines), random.choice(lines)
    plan.lines[a], plan.lines[b] = plan.lines[b], plan.lines[a]


def swap_sizes(random, plan):
    """As many ranks along other axes: cuts that are not even."""
    sizes = plan.sizes()
    a, b = random.choice(list(sizes)), random.choice(list(sizes))
    if len(sizes[a]) == len(sizes[b]) and "pipe" not in (a, b):
        plan.set_axis(a, sizes[b])
        plan.set_axis(b, sizes[a])


def swap_names(random, plan):
    """Each line says one axis for the other."""
    axes = plan.axes()
    a, b = random.choice(axes), random.choice(axes)
    for word in ("plan.assign", "plan.parameter", "plan.layout"):
        for i in plan.at(word):
            plan.lines[i] = re.sub(f'"({re.escape(a)}|{re.escape(b)})"',
                                   lambda m: quoted(b if m[1] == a else a), plan.lines[i])


def split_axis(random, plan):
    """An axis becomes two parts; lines that name it mean both."""
    for name, sizes in plan.sizes().items():
        if sizes in ([4], [6]) and name != "pipe":
            plan.set_axis(name, [2, sizes[0] // 2])


def move_axis(random, plan):
    """Part of an axis is an axis of its own, which some lines name."""
    for name, sizes in plan.sizes().items():
        if sizes in ([4], [6]) and name != "pipe":
            plan.set_axis(name, [2])
            plan.lines.insert(plan.at("plan.axis")[-1], f'    plan.axis "other" [{sizes[0] // 2}]')
            for word in ("plan.assign", "plan.parameter"):
                for i in plan.at(word):
                    if random.random() < 0.7:
                        plan.lines[i] = plan.lines[i].replace(quoted(name), quoted(name) + ', "other"')
            return


def move_stages(random, plan):
    """Another number of layers on each stage."""
    lines = plan.at("plan.stage")
    layers = []
    for i in lines:
        kinds, counts = re.search(r"layers \[(.*)\] counts \[(.*)\]", plan.lines[i]).groups()
        for kind, count in zip(re.findall(r'"(\w+)"', kinds), counts.split(",")):
            layers += [kind] * int(count)
    cuts = sorted(random.sample(range(1, len(layers)), len(lines) - 1)) if lines else []
    for i, begin, end in zip(lines, [0, *cuts], [*cuts, len(layers)]):
        runs = []
        for kind in layers[begin:end]:
            if not runs or runs[-1][0] != kind:
                runs.append([kind, 0])
            runs[-1][1] += 1
        plan.lines[i] = f"      plan.stage layers {listed(k for k, _ in runs)} counts {[n for _, n in runs]}"


def change_schedule(random, plan):
    for i in plan.at("plan.pipeline"):
        plan.lines[i] = re.sub(r'"[\w-]+" over', lambda _: quoted(random.choice(
            ("1f1b", "gpipe", "zb-h1", "interleaved"))) + " over", plan.lines[i])


def add_pieces(random, plan):
    """The last layer in pieces, mostly of a size that fits."""
    (i,) = plan.at("plan.batch")
    micro, sequence = map(int, re.search(r"micro (\d+) sequence (\d+)", plan.lines[i]).groups())
    blocks = (["vocab"], [random.randint(2, 5)])
    along, pieces = random.choice((blocks, (["batch"], [micro]), (["batch", "sequence"], [micro, sequence]),
                                   (["batch", "sequence"], [micro, 2]), (["sequence"], [3])))
    if not plan.at("plan.chunk"):
        plan.add(f'plan.chunk "head" along {listed(along)} pieces {pieces}')


def add_recomputation(random, plan):
    for i in reversed(plan.at("plan.recompute")):
        del plan.lines[i]
    for kind in plan.names.kinds():
        paths = list(dict.fromkeys(plan.names.paths(kind)))
        if kind != "head" and random.random() < 0.8:
            kept = random.sample(paths, random.randint(0, min(5, len(paths))))
            plan.add(f"plan.recompute {quoted(kind)} saved {listed(kept)}")


def change_order(random, plan):
    """Tokens in zig-zag over other axes, or as they come."""
    (i,) = plan.at("plan.batch")
    plan.lines[i] = re.sub(r" zigzag \[.*\]", "", plan.lines[i])
    axes = plan.axes()
    if random.random() < 0.7:
        plan.lines[i] += f" zigzag {listed(random.sample(axes, random.randint(1, len(axes))))}"


def change_micro(random, plan):
    (i,) = plan.at("plan.batch")
    plan.lines[i] = re.sub(r"micro \d+", f"micro {random.choice((1, 1, 2, 3))}", plan.lines[i])


def contradict(random, plan):
    """What a plan can't say: lines twice, axes twice, unknown names, other characters, any number."""
    i = random.choice([n for n, line in enumerate(plan.lines) if "plan." in line])
    line = plan.lines[i]
    plan.lines[i] = random.choice((
        lambda: line + "\n" + line,
        lambda: line.replace("[", '["data", "data", ', 1),
        lambda: line.replace('"', '"x', 1),
        lambda: line.replace('["', '[', 1),
        lambda: line[:random.randrange(len(line) + 1)],
        lambda: "",
        lambda: line.replace('"', '"\udcff', 1),
        lambda: re.sub(r"\d+", lambda m: random.choice(("0", "-1", "7", str(2 ** 62), "9" * 20)), line, count=1),
        lambda: re.sub(r"\[[^]]*\]", "[]", line, count=1),
        lambda: re.sub(r"\{.*\}", "{}", line, count=1)))()


EDITS = (drop_assignments, change_assignments, change_assignments, change_assignments,
         change_parameters, change_parameters, drop_parameters, change_layout, swap_axes, swap_sizes,
         swap_names, split_axis, move_axis, move_stages, move_stages, change_schedule, add_pieces,
         add_recomputation, change_order, change_micro)


def edited(random, text, names):
    """The plan after one to four edits."""
    plan = Plan(text, names)
    for edit in random.sample(EDITS, random.randint(1, 4)):
        edit(random, plan)
    if random.random() < 0.08:
        contradict(random, plan)
    return plan.text()
