#!/usr/bin/env python3
"""Holds some lines of docs/KnownLayouts.md to what `cleave validate --ranks` says today.

Rows with large gains are compared with their line. Where the published layout is in the space and
fits, the search must find one that is no slower.
"""

import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IDS = ("reducing-activation-recomput-001", "internevo-7b-001", "megatron-lm-sc-21-table-1-00",
       "zero-bubble-pp-table-4-025", "ibm-fms-fsdp-00", "llm-c")


def load_bench():
    loader = importlib.machinery.SourceFileLoader("ranks", str(ROOT / "bench" / "ranks"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ranks", loader))
    loader.exec_module(module)
    return module


def is_in_space(row):
    pins = row["published"]["pins"]
    parts = ("scores", "some", "layer", "zb-2p")
    return not any(part in pins for part in parts) and row["published"]["memory"] <= row[
        "usable_memory"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cleave", required=True)
    parser.add_argument("--tables", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.rows = options.tables / "steps.csv"
    options.ids = ",".join(IDS)
    if not options.rows.exists():
        print(f"skipped: {options.rows} is not there")
        return SKIPPED
    bench = load_bench()
    known = (ROOT / "docs" / "KnownLayouts.md").read_text(encoding="utf-8").splitlines()
    failures = compared = 0
    rows = bench.ranks_of(options)
    for row in rows:
        line = next((text for text in known if text.startswith(f"| {row['id']} |")), None)
        if line is not None:
            compared += 1
            if line != bench.group_line(row):
                failures += 1
                print(f"docs/KnownLayouts.md: {line}\nnow:                  "
                      f"{bench.group_line(row)}\nrun bench/ranks -o docs/KnownLayouts.md",
                      file=sys.stderr)
        # Stages may be dealt out in another way than the search does it.
        if is_in_space(row) and "best" in row and bench.gain(row) < -0.02:
            failures += 1
            print(f"{row['id']}: {row['published']['pins']} is faster than "
                  f"{row['best']['pins']}: {bench.gain(row):.3f}", file=sys.stderr)
    print(f"{len(rows)} rows, {compared} lines compared")
    return 1 if failures or compared < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
