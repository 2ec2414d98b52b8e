"""Runs tests of the case files: `run.py CLEAVE GOLDEN_DIR case A01` those whose name has the
case's id, in any file; `run.py CLEAVE GOLDEN_DIR topic FILE` those of a file whose name has none.

The ids are those of docs/Cases.md. A test's name begins with those of its cases:
`test_j04_b04_one_forward_one_backward` belongs to two.
"""
import importlib
import re
import sys
import unittest

import harness

IDS = re.compile(r"test_((?:[a-z]\d\d_)*)")


def ids(test):
    """The cases that a test belongs to."""
    (name,) = IDS.match(test.id().rsplit(".", 1)[1]).groups()
    return {part.upper() for part in name.split("_") if part}


def tests_of(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from tests_of(entry)
        else:
            yield entry


def main():
    what, name, files = sys.argv[3], sys.argv[4], sys.argv[4:] if sys.argv[3] == "topic" else sys.argv[5:]
    loaded = [unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(file))
              for file in files]
    tests = [test for test in tests_of(loaded)
             if (name in ids(test) if what == "case" else not ids(test))]
    if not tests:
        sys.exit(f"no test of {what} {name}")
    # A suite of all, so that tests of a class share what it sets up.
    result = unittest.TextTestRunner().run(unittest.TestSuite(tests))
    if result.wasSuccessful() and len(result.skipped) == len(tests):
        print("skipped")
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)


main()
