#!/usr/bin/env python3
"""Compares the error kinds of the sources with those of docs/Formats.md.

    compare-kinds.py ROOT

A kind in the sources is a string literal "prefix.name", or the start of a
diagnostic, "prefix.name: …". Kinds that ObjectReader puts together from a file's
prefix are known by their suffixes. In the document kinds stand in the first
column of tables, in backquotes; one that starts with a point continues the
prefix before it, and `prefix.…` stands for all kinds of the prefix.
"""

import pathlib
import re
import sys

READER_SUFFIXES = {"unknown_key", "wrong_type", "out_of_range", "missing_key", "unknown_value",
                   "version_unsupported"}
READER_PREFIXES = {"recipe", "cluster", "checkpoint", "image"}
# Literals that look like kinds and are names of files or of parts of a model.
OTHERS = {"config.json", "recipe.json", "model.safetensors", "model.embed_tokens", "model.norm",
          "model.final_layernorm",
          "memory.max", "plan.request"}


def documented(text):
    kinds, wildcards, prefix = set(), set(), None
    cells = "\n".join(re.findall(r"^\| ([^|]*) \|", text, flags=re.M))
    for token in re.findall(r"`([^`\n]+)`", cells):
        if re.fullmatch(r"[a-z]+\.…", token):
            wildcards.add(token.split(".")[0])
        elif found := re.fullmatch(r"([a-z]*)\.([a-z_]+)", token):
            prefix = found[1] or prefix
            kinds.add(f"{prefix}.{found[2]}")
    return kinds, wildcards


def in_sources(root, prefixes):
    kinds = {}
    for folder in ("lib", "runtime", "tools"):
        for path in sorted((root / folder).rglob("*.cpp")):
            for found in re.finditer(r'"([a-z]+)\.([a-z_]+)(?:"|: )', path.read_text()):
                kind = f"{found[1]}.{found[2]}"
                if found[1] in prefixes and kind not in OTHERS:
                    kinds.setdefault(kind, path.relative_to(root))
    return kinds


def main():
    root = pathlib.Path(sys.argv[1])
    errors = root.joinpath("docs/Formats.md").read_text()
    kinds, wildcards = documented(errors[errors.index("## Plan"):])
    prefixes = {kind.split(".")[0] for kind in kinds}
    sources = in_sources(root, prefixes)
    problems = [f"{path}: {kind} is not in docs/Formats.md" for kind, path in sources.items()
                if kind not in kinds and kind.split(".")[0] not in wildcards]
    for kind in sorted(kinds - set(sources)):
        prefix, name = kind.split(".")
        built = prefix in READER_PREFIXES and name in READER_SUFFIXES
        if not built:
            problems.append(f"docs/Formats.md: nothing in the sources gives {kind}")
    print("\n".join(problems) or f"{len(sources)} kinds agree")
    sys.exit(1 if problems else 0)


main()
