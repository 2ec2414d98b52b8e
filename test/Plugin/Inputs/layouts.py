#!/usr/bin/env python3
"""Deals a program's inputs out to its ranks, and compares what programs computed.

    layouts.py deal PROGRAM             partitioned IR → the same with values for
                                        cleave-interpret, each rank its blocks
    layouts.py compare RESULT RESULT    interpreted IR of two layouts: loss and
                                        gradients, put together, agree to 1e-9

The values are functions of names and global positions, so that every layout of
one model gets the same tensors.
"""

import ast
import itertools
import math
import re
import sys

TOLERANCE = 1e-9
SHARDING = r"#dist\.sharding<\[(.*?)\](?:, partial \[([^\]]*)\])?>"


class Mesh:
    def __init__(self, text):
        found = re.search(r"dist\.mesh @mesh \[(.*?)\] = \[(.*?)\]", text)
        self.axes = re.findall(r'"([^"]*)"', found[1])
        self.sizes = [int(n) for n in found[2].split(",")]
        self.ranks = math.prod(self.sizes)

    def coordinate(self, rank, axes):
        place = {}
        for axis, size in reversed(list(zip(self.axes, self.sizes))):
            rank, place[axis] = divmod(rank, size)
        result = 0
        for axis in axes:
            result = result * self.sizes[self.axes.index(axis)] + place[axis]
        return result

    def size(self, axes):
        return math.prod(self.sizes[self.axes.index(a)] for a in axes)


def parse_sharding(text):
    """(axes of each dimension, partial axes)"""
    found = re.search(SHARDING, text)
    names = lambda part: re.findall(r'[\w.]+', part or "")
    return [names(d) for d in re.findall(r"\[([^\]]*)\]", found[1])], names(found[2])


def block_positions(mesh, shape, cuts, rank):
    """Global positions of a rank's block, in order; None where it is padding."""
    ranges = []
    for size, axes in zip(shape, cuts):
        block = -(-size // mesh.size(axes))
        start = block * mesh.coordinate(rank, axes)
        ranges.append(range(start, start + block))
    for index in itertools.product(*ranges):
        yield index if all(i < n for i, n in zip(index, shape)) else None


def flat(index, shape):
    position = 0
    for i, n in zip(index, shape):
        position = position * n + i
    return position


def weight(name, position):
    return math.sin(1.0 + 0.7 * position + sum(map(ord, name)))


def token(name, position):
    return (3 * position + len(name)) % 7


def literal(values, shape, kind):
    def nest(values, shape):
        if not shape:
            return next(values)
        return "[" + ", ".join(nest(values, shape[1:]) for _ in range(shape[0])) + "]"
    kind = "x".join([*map(str, shape), kind])
    return f"dense<{nest(iter(values), shape)}> : tensor<{kind}>"


def dealt(mesh, name, shape, cuts, kind, value):
    blocks = []
    for rank in range(mesh.ranks):
        block = [-(-n // mesh.size(axes)) for n, axes in zip(shape, cuts)]
        values = [value(name, flat(i, shape)) if i is not None else 0
                  for i in block_positions(mesh, shape, cuts, rank)]
        texts = [str(v) if kind == "i32" else repr(float(v)) for v in values]
        blocks.append(literal(texts, block, kind))
    return "cleave.value = [" + ", ".join(blocks) + "]"


def deal(text):
    mesh = Mesh(text)

    def parameter(line):
        name, kind = re.search(r"nn\.parameter @(\S+) : tensor<([^,]*)x\w+,", line).groups()
        cuts, _ = parse_sharding(re.search(r"dist\.value = " + SHARDING, line)[0])
        value = dealt(mesh, name, [int(n) for n in kind.split("x")], cuts, "f64", weight)
        return line.replace("{", "{" + value + ", ", 1)

    def argument(found):
        cuts, _ = parse_sharding(found[0])
        local = [int(n) for n in found[1].split("x")]
        shape = [n * mesh.size(axes) for n, axes in zip(local, cuts)]
        name = re.search(r'nn\.name = "(\w+)"', found[0])[1]
        return found[0].replace("{", "{" + dealt(mesh, name, shape, cuts, "i32", token) + ", ", 1)

    for line in text.splitlines():
        if "nn.parameter @" in line:
            line = parameter(line)
        elif "nn.accumulator @step.scale" in line:
            line = line.replace("{", "{cleave.value = dense<0.125> : tensor<f64>, ", 1)
        elif "func.func @microbatch" in line:
            line = re.sub(r"tensor<([\dx]+)xi32, #[^{]*?> \{[^}]*\}", argument, line)
        yield line


def elements(text):
    """The constants of `[dense<…> : tensor<…>, …]` as flat lists with shapes."""
    for body, kind in re.findall(r"dense<(.*?)> : tensor<([^>]*)>", text):
        shape = [int(n) for n in kind.split("x")[:-1]]
        values = ast.literal_eval(body)
        leaves = lambda v: [x for y in v for x in leaves(y)] if isinstance(v, list) else [v]
        values = leaves(values)
        yield shape, values * (math.prod(shape) if len(values) == 1 else 1)


def joined(mesh, text, slot, shape):
    """The whole tensor of a slot: partial terms added up, padding left out."""
    found = re.search(rf"dist\.{slot} = " + SHARDING, text)
    cuts, partial = parse_sharding(found[0]) if found else ([], [])
    own = set(partial).union(*cuts)
    others = [a for a in mesh.axes if a not in own]
    state = re.search(r"cleave\.state = \{(.*?)\](?=[,}])[^=]*?\}", text) and \
        re.search(rf"cleave\.state = \{{.*?\b{slot} = \[(.*?>)\]", text)[1]
    whole = [0.0] * math.prod(shape)
    for rank, (_, values) in enumerate(elements(state)):
        if mesh.coordinate(rank, others) != 0:
            continue
        for index, value in zip(block_positions(mesh, shape, cuts, rank), values, strict=True):
            if index is not None:
                whole[flat(index, shape)] += value
    return whole


def results(path):
    text = open(path).read()
    mesh, found = Mesh(text), {}
    for line in text.splitlines():
        if name := re.search(r"nn\.parameter @(\S+) : tensor<([^,]*)x\w+,", line):
            found[name[1]] = joined(mesh, line, "gradient", [int(n) for n in name[2].split("x")])
        elif "nn.accumulator @step.loss" in line:
            found["step.loss"] = joined(mesh, line, "value", [])
    return found


def compare(one, other):
    one, other = results(one), results(other)
    if one.keys() != other.keys() or len(one) < 2:
        sys.exit(f"different tensors: {sorted(one)} and {sorted(other)}")
    for name, values in one.items():
        for i, (a, b) in enumerate(zip(values, other[name], strict=True)):
            if not abs(a - b) <= TOLERANCE * max(1.0, abs(a)):
                sys.exit(f"{name}[{i}]: {a} and {b}")
        if not any(values):
            sys.exit(f"{name}: all zeros")
        print(f"{name}: {len(values)} numbers agree")


def main():
    if sys.argv[1] == "deal":
        print("\n".join(deal(open(sys.argv[2]).read())))
    else:
        compare(sys.argv[2], sys.argv[3])


main()
