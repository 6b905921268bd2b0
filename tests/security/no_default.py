#!/usr/bin/env python3
"""Checks that no `switch` over an enumeration of ours has a `default:`.

  no_default.py [TOP]

Without one, the compiler names the switch that forgets a new enumerator; with one, the new task, state or format silently
takes the way of another. Switches over numbers and over enumerations of other projects keep theirs.
"""
import pathlib
import re
import sys

HOUSES = ("common", "daemon", "plugin", "cli", "tests")
SWITCH = re.compile(r"^( *)switch \(")
DEFAULT = re.compile(r"^ *default:")
CASE = re.compile(r"^ *case (\w+)(?:<[^>]*>)?::\w")
# What is before the `::` in the labels of other projects.
FOREIGN = {"nlohmann", "spdlog", "log"}


def switches(lines):
    """(line number of `default:`, the labels' first names) of each that has one. As clang-format leaves it."""
    open_ones = []
    for number, line in enumerate(lines, 1):
        if found := SWITCH.match(line):
            open_ones.append((found[1], [], set()))
        elif open_ones and line == open_ones[-1][0] + "}":
            _, defaults, names = open_ones.pop()
            for default in defaults:
                yield default, names
        elif open_ones and DEFAULT.match(line):
            open_ones[-1][1].append(number)
        elif open_ones and (found := CASE.match(line)):
            open_ones[-1][2].add(found[1])


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    found = count = 0
    for path in sorted(file for house in HOUSES for file in (top / house).rglob("*.[ch]pp")):
        text = path.read_text().splitlines()
        count += sum(bool(SWITCH.match(line)) for line in text)
        for number, names in switches(text):
            if names - FOREIGN:
                found += 1
                print(f"{path.relative_to(top)}:{number}: 'default:' in a switch over {', '.join(sorted(names))}: "
                      "name the other enumerators, so that the compiler finds the switch when one is added")
    if count == 0:
        print("no switch was found", file=sys.stderr)
        found = 1
    sys.exit(1 if found else 0)


main()
