"""Holds docs/Cases.md to what there is: every test it names exists, every case has a row.

    table.py CTEST BUILD_DIR CASES_MD
"""
import re
import subprocess
import sys

# Cases that must hold as tests.
ASKED = ("A01 A03 A04 A06 A07 A08 A09 A10 A12 B01 B03 B04 C01 C03 C04 C05 C07 D01 D02 D03 D05 D07 D08 D09 D10 "
         "D11 D13 E03 E06 F01 F03 F05 G01 G02 G03 G04 G05 G07 G08 G09 G11 G12 G13 G15 I01 I03 I04 J01 J02 J04 J06 K01 K03").split()


def rows_of(path):
    """case → (what holds, names of tests, all that is open)."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 3 and re.fullmatch(r"[A-Z]\d\d", cells[0]):
                if cells[0] in rows:
                    sys.exit(f"two rows of {cells[0]}")
                rows[cells[0]] = (cells[1], re.findall(r"`([^`]+)`", cells[2]))
    return rows


def main():
    ctest, build, path = sys.argv[1:]
    listed = subprocess.run([ctest, "--test-dir", build, "-N"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    tests = set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M))
    rows = rows_of(path)
    bad = [f"{case} has no row" for case in ASKED if case not in rows]
    for case, (holds, names) in rows.items():
        if not holds or not names:
            bad.append(f"the row of {case} is not complete")
        bad += [f"{case}: there is no test {name}" for name in names if name not in tests]
        # What ctest -R CASE runs.
        if not any(case in name for name in names):
            bad.append(f"{case}: none of its tests has its name")
    for name in sorted(tests):
        found = re.fullmatch(r"cases/([A-Z]\d\d)", name)
        if found and name not in rows.get(found[1], (None, []))[1]:
            bad.append(f"{name} is in no row")
    print(f"{len(rows)} cases, {sum(len(names) for _, names in rows.values())} tests")
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


main()
