#!/usr/bin/env python3
"""Checks that no two sources define a class or an enumeration of one name, outside of unnamed namespaces.

  one_definition.py [TOP]

The linker keeps one definition of what two classes of one name have in common, such as a destructor, and says nothing
(the one-definition rule of C++). Whether a program crashes then depends on what the compiler inlines. The preset "whole"
finds the same for each program, by its linker (-Wodr); this finds it in all sources at once, and takes no build.
"""
import collections
import pathlib
import re
import sys

HOUSES = ("common", "daemon", "plugin", "cli")
# As clang-format leaves it: what a namespace holds is not indented.
UNNAMED = re.compile(r"^namespace \{")
END_OF_UNNAMED = re.compile(r"^\}  // namespace$")
DEFINITION = re.compile(r"^(?:class|struct|union|enum(?: class)?) (?:\[\[\w+\]\] )?([\w:]+)[^;]*\{")
# Of these, a build has one.
INSTEAD = {"daemon/worker/gzip/isal_inflater.cpp": "daemon/worker/gzip/zlib_inflater.cpp",
           "daemon/root/nodes/munge_credential.cpp": "daemon/root/nodes/no_credential.cpp",
           "daemon/root/basis/systemd_service_manager.cpp": "daemon/root/basis/no_service_manager.cpp"}


def definitions(text):
    """(line number, name) of each."""
    is_unnamed = False
    for number, line in enumerate(text.splitlines(), 1):
        if UNNAMED.match(line):
            is_unnamed = True
        elif END_OF_UNNAMED.match(line):
            is_unnamed = False
        found = DEFINITION.match(line)
        if found and not is_unnamed:
            yield number, found[1]


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    places = collections.defaultdict(dict)
    for house in HOUSES:
        for file in sorted((top / house).rglob("*.[ch]pp")):
            name = str(file.relative_to(top))
            for number, defined in definitions(file.read_text(encoding="utf-8")):
                if INSTEAD.get(name) not in places[defined] and name not in map(INSTEAD.get, places[defined]):
                    places[defined][name] = number
    count = sum(map(len, places.values()))
    faults = [f"{defined} is defined in " + " and in ".join(f"{file}:{number}" for file, number in files.items())
              for defined, files in places.items() if len(files) > 1]
    if count < 300:
        faults.append(f"only {count} definitions were found: does this still read the sources as they are?")
    sys.exit("\n".join(faults) or 0)


main()
