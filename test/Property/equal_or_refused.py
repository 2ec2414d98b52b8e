"""Random models × meshes × plans: each is equal to one rank, or refused by a kind of the docs.

    equal_or_refused.py CLEAVE FORMATS [--seed S] [--first N] [--count N] [--keep DIR] [-v]

A case is a config, a request, and for half of them edits of the plan that the request gives.
`cleave verify` runs it beside one rank; then it must compile to an image, or be refused there by
the same kind. Cases are the same for equal seeds. A case that fails is left in a folder with the
commands that show it again; so are all with --keep.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import edits
import layouts
import models
import names

# Of one command; the slowest of some thousand took four on a busy machine.
LIMIT = 120


class Wrong(Exception):
    """What must not happen."""


def documented_kinds(path):
    """The kinds in the tables of the docs; `prefix.…` stands for mistakes of ours."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    kinds, prefix = set(), None
    for cell in re.findall(r"^\| ([^|]*) \|", text[text.index("## Plan"):], flags=re.M):
        for found in re.finditer(r"`([a-z]*)\.([a-z_]+)`", cell):
            prefix = found[1] or prefix
            kinds.add(f"{prefix}.{found[2]}")
    return kinds


def run_program(command, folder):
    """The exit code of a command, and what it said."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd=folder,
                              timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Wrong(f"no end after {LIMIT} s: {' '.join(command)}") from None
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Case:
    """One draw, and what became of it."""

    def __init__(self, tools, seed, number, folder):
        self.cleave, self.kinds = tools
        self.folder = folder
        self.random = random.Random(f"{seed}/{number}")
        self.commands = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run(self, *words):
        """None where it is done, else the kind of the refusal."""
        command = [self.cleave, *words, "--json"]
        self.commands.append(" ".join(f"'{word}'" if "[" in word or " " in word else word
                                      for word in command))
        code, out, err = run_program(command, self.folder)
        said = out + err
        if code == 0:
            return None
        if code != 2:
            raise Wrong(f"exit code {code}\n{said}")
        try:
            error = json.loads(out)["error"]
        except (ValueError, KeyError):
            raise Wrong(f"no error in JSON\n{said}") from None
        if error["kind"] not in self.kinds:
            raise Wrong(f"a kind that the docs do not have\n{said}")
        if not error.get("rule") or not error.get("suggestions"):
            raise Wrong(f"a refusal without a rule or a suggestion\n{said}")
        return error["kind"]

    def draw(self):
        """What refuses the request, if anything does; the words of the request, and of its plan."""
        self.config = models.model(self.random)
        request = layouts.request(self.random, self.config)
        self.write("config.json", json.dumps(self.config, indent=1))
        self.settings = [word for key, value in request["settings"].items()
                         for word in ("--set", f"{key}={value}")]
        cluster = ["--cluster", f"local:{request['ranks']}", *self.settings]
        batch = ["--seq-len", str(request["sequence"]), "--global-batch", str(request["global_batch"])]
        pins = ["--pin", ",".join(f"{key}={value}" for key, value in request["pins"].items())]
        if self.random.random() < 0.5:
            return None, [*cluster, *batch], pins
        if refused := self.run("compile", "config.json", *cluster, *batch, *pins, "--emit=plan", "-o", "made.mlir"):
            return refused, None, None
        self.run("compile", "config.json", "--emit=nn", "-o", "model.mlir")
        known = names.Names(self.read("model.mlir"))
        self.write("plan.mlir", edits.edited(self.random, self.read("made.mlir"), known))
        # Sizes are the plan's own.
        return None, cluster, ["--plan", "plan.mlir"]

    def outcome(self):
        """equal, or the kind of the refusal."""
        refused, wanted, plan = self.draw()
        if refused:
            return refused
        size = ["--full-size"] if self.random.random() < 0.75 else []
        # Rounding grows with depth, and more from step to step.
        steps = "1" if models.layers(self.config) > 8 else "2"
        refused = self.run("verify", "config.json", *wanted, *plan, *size, "--steps", steps)
        compiled = self.run("compile", "config.json", *wanted, *plan, "--emit=image", "-o", "image")
        if refused != compiled:
            raise Wrong(f"verify: {refused or 'equal'}, compile: {compiled or 'done'}")
        return refused or "equal"


def judge(kind, tools, seed, number, parent):
    """(number, outcome, what went wrong) of a case; its folder stays if something did."""
    folder = os.path.join(parent, f"{seed}-{number}")
    os.mkdir(folder)
    case = kind(tools, seed, number, folder)
    try:
        return number, case.outcome(), None
    except Wrong as wrong:
        return number, "wrong", str(wrong)
    finally:
        case.write("replay.sh", f"cd {folder}\n" + "\n".join(case.commands) + "\n")


def show(parent, seed, number, wrong):
    print(f"case {number} of seed {seed}: {wrong}", flush=True)
    with open(os.path.join(parent, f"{seed}-{number}", "replay.sh"), encoding="utf-8") as file:
        print(file.read(), flush=True)


def main(kind=Case):
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave")
    parser.add_argument("formats")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep")
    parser.add_argument("-v", action="store_true", help="a line for each case")
    options = parser.parse_args()
    parent = options.keep or tempfile.mkdtemp(prefix="cleave-property-")
    os.makedirs(parent, exist_ok=True)
    tools = os.path.abspath(options.cleave), documented_kinds(options.formats)
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        numbers = range(options.first, options.first + options.count)
        for number, outcome, wrong in pool.map(
                lambda n: judge(kind, tools, options.seed, n, parent), numbers):
            counts[outcome] += 1
            if options.v:
                print(number, outcome, flush=True)
            if wrong:
                show(parent, options.seed, number, wrong)
            elif not options.keep:
                shutil.rmtree(os.path.join(parent, f"{options.seed}-{number}"))
    if not options.keep and not counts["wrong"]:
        shutil.rmtree(parent)
    for outcome, count in counts.most_common():
        print(f"{count:6} {outcome}")
    ran = counts["equal"] / options.count
    if ran < 0.6:
        print(f"only {ran:.0%} of the cases run: the draws are poor")
    sys.exit(1 if counts["wrong"] or ran < 0.6 else 0)


if __name__ == "__main__":
    main()
