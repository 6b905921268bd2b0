#!/usr/bin/env python3
"""Checks that the sources include each other only as rooms.txt allows, that no room has more lines than its ceiling
there, and that docs/architecture.md describes each room.

  rooms.py [TOP]
"""

import collections
import pathlib
import re
import sys

# Whatever the table allows: the daemon that is root, and the process that listens on the network, get no way to a
# request's decoder or an archive's, neither themselves nor through a room that they include.
NEVER = (
    ("daemon/root", "common/request"),
    ("daemon/root", "daemon/worker"),
    ("daemon/peer", "common/request"),
    ("daemon/peer", "daemon/worker"),
)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
HOUSES = ("common", "daemon", "plugin", "cli")
HERE = pathlib.Path(__file__).parent
# The first cell of a row of docs/architecture.md that has names of rooms and nothing else.
ROW = re.compile(r"^\| (`\w+`(?: · `\w+`)*) \|", re.MULTILINE)


def read_table(path):
    """room -> the rooms that it may include; room -> its ceiling of lines; what is wrong with the table itself."""
    table, ceilings, faults = {}, {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head, _, below = line.partition(":")
        room, _, ceiling = head.partition(" ")
        ceilings[room] = int(ceiling)
        for other in below.split():
            if other not in table:
                faults.append(f"{path.name}:{number}: {room} may not include {other}, which is not above this line")
        table[room] = set(below.split())
    return table, ceilings, faults


def room_of(file, table):
    for folder in file.parents:
        if str(folder) in table:
            return str(folder)
    return None


def reachable(table, room):
    found, rest = set(), [room]
    while rest:
        below = table[rest.pop()] - found
        found |= below
        rest += below
    return found


def lies_in(room, folder):
    return room == folder or room.startswith(folder + "/")


def check_never(table):
    faults = []
    for folder, other in NEVER:
        for room in (room for room in table if lies_in(room, folder)):
            for reached in sorted(below for below in reachable(table, room) if lies_in(below, other)):
                faults.append(f"rooms.txt: {room} must never get at {reached}")
    return faults


def check(top, table, ceilings):
    faults, used, lines = [], {room: set() for room in table}, collections.Counter()
    for house in HOUSES:
        for source in sorted((top / house).rglob("*.[ch]pp")):
            file = source.relative_to(top)
            room = room_of(file, table)
            if room is None:
                faults.append(f"{file}: is in no room")
                continue
            text = source.read_text()
            lines[room] += text.count("\n")
            for name in INCLUDE.findall(text):
                other = room_of(pathlib.Path(name), table)
                if other is None:
                    faults.append(f"{file}: includes {name}, which is in no room")
                elif other != room:
                    used[room].add(other)
                    if other not in table[room]:
                        faults.append(f"{file}: {room} may not include {name}")
    for room, below in table.items():
        for other in sorted(below - used[room]):
            faults.append(f"rooms.txt: {room} may include {other}, but does not")
    for room, ceiling in ceilings.items():
        if lines[room] > ceiling:
            faults.append(f"{room} has {lines[room]} lines, and at most {ceiling} by rooms.txt")
    return faults


def check_described(top, table):
    """The tables of docs/architecture.md have each room once; two houses may have rooms of one name."""
    rows = ROW.findall((top / "docs/architecture.md").read_text())
    described = collections.Counter(name for row in rows for name in re.findall(r"\w+", row))
    parents = {str(pathlib.Path(room).parent) for room in table}
    rooms = collections.Counter(pathlib.Path(room).name for room in table
                                if "/" in room and room not in parents and room != "daemon/peer")
    return ([f"docs/architecture.md: the tables lack the room {room}" for room in rooms - described] +
            [f"docs/architecture.md: {room} is no room" for room in described - rooms])


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent)
    table, ceilings, faults = read_table(HERE / "rooms.txt")
    faults += check_never(table)
    faults += check(top, table, ceilings)
    faults += check_described(top, table)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
