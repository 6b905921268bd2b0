"""Compares the packed tree with the extracted one: names, types, modes, times, contents."""
import filecmp
import os
import stat


def names(top):
    found = []
    for directory, directories, files in os.walk(top):
        found.extend(os.path.relpath(os.path.join(directory, name), top) for name in directories + files)
    return sorted(found)


def difference(expected, found):
    """The first difference in words, or None. Times are compared to the second."""
    wanted, there = names(expected), names(found)
    if wanted != there:
        odd = sorted(set(wanted) ^ set(there))
        return f"{len(wanted)} names expected, {len(there)} found; one without its like is {odd[0]!r}"
    for name in wanted:
        a, b = os.lstat(f"{expected}/{name}"), os.lstat(f"{found}/{name}")
        if a.st_mode != b.st_mode:
            return f"{name!r}: mode {b.st_mode:o} instead of {a.st_mode:o}"
        if int(a.st_mtime) != int(b.st_mtime):
            return f"{name!r}: time {b.st_mtime} instead of {a.st_mtime}"
        if stat.S_ISREG(a.st_mode) and not filecmp.cmp(f"{expected}/{name}", f"{found}/{name}", shallow=False):
            return f"{name!r}: another content"
    return None
