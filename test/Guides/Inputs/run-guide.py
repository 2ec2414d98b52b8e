#!/usr/bin/env python3
"""Does what a guide says, in a copy of the tree, and compares what comes out.

    run-guide.py GUIDE --copy FOLDER --tool PATH

FOLDER becomes a copy of the tree that GUIDE belongs to; its `build` is a link to
the build that the tool lies in (build/bin/TOOL). Then GUIDE's fenced blocks are
taken in order:

    ```LANGUAGE NAME   the text becomes the file NAME
    ```sh              is run by bash; it must succeed
    ```output          is what the `sh` block above printed; a line of "…" stands
                       for any lines, and "…" inside a line for any text
    any other          is for readers

Tools are found in build/bin, and LLVM's where `--path` says.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

FENCE = re.compile(r"^```(\S*)(?: +(\S+))?\n(.*?)^```$", re.M | re.S)


def copy_tree(root, copy, build):
    if copy.exists():
        shutil.rmtree(copy)
    ignore = shutil.ignore_patterns("build*", ".git", ".cache", "__pycache__")
    shutil.copytree(root, copy, ignore=ignore, symlinks=True)
    (copy / "build").symlink_to(build)
    # The checks of scripts/ ask git which files there are.
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=copy, check=True)


def matches(expected, printed):
    """Whether `expected` is all of `printed`, with "…" for what may be anything."""
    pattern = ""
    for line in expected.strip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.rstrip().split("…")) + "\n"
    text = "".join(line.rstrip() + "\n" for line in printed.strip("\n").split("\n"))
    return re.fullmatch(pattern, text) is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("guide", type=pathlib.Path)
    parser.add_argument("--copy", type=pathlib.Path, required=True)
    parser.add_argument("--tool", type=pathlib.Path, required=True)
    parser.add_argument("--path", default="")
    given = parser.parse_args()
    root = next(folder for folder in given.guide.resolve().parents
                if (folder / "CMakePresets.json").exists())
    tools = given.tool.resolve().parent
    copy_tree(root, given.copy, tools.parent)
    path = [str(tools), given.path, os.environ["PATH"]]
    environment = dict(os.environ, PATH=":".join(p for p in path if p))

    printed, ran = None, 0
    text = given.guide.read_text()
    for block in FENCE.finditer(text):
        language, name, body = block[1], block[2], block[3]
        place = f"{given.guide.name}:{text.count(chr(10), 0, block.start()) + 1}"
        if name:
            (given.copy / name).parent.mkdir(parents=True, exist_ok=True)
            (given.copy / name).write_text(body)
        elif language == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=given.copy,
                                  env=environment, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            printed, ran = done.stdout, ran + 1
            if done.returncode:
                sys.exit(f"{place}: exit code {done.returncode} of\n{body}it printed\n{printed}")
        elif language == "output":
            if printed is None:
                sys.exit(f"{place}: no command comes before this output")
            if not matches(body, printed):
                sys.exit(f"{place}: expected\n{body}but the commands printed\n{printed}")
    if not ran:
        sys.exit(f"{given.guide.name}: no commands")
    print(f"{given.guide.name}: {ran} blocks of commands ran")


main()
