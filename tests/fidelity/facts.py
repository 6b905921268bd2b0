"""The facts about each name in a tree, and the differences of two trees."""
import hashlib
import os
import stat


def facts_of(path, first_names, name):
    info = os.lstat(path)
    kind = stat.filemode(info.st_mode)[0]
    facts = {"kind": kind, "mode": stat.S_IMODE(info.st_mode), "time": info.st_mtime_ns, "size": 0, "content": "",
             "target": b"", "sparse": False, "same file as": None}
    if kind == "l":
        facts["mode"], facts["target"] = 0o777, os.readlink(path)
    if kind == "-":
        with open(path, "rb") as file:
            facts["content"] = hashlib.sha256(file.read()).hexdigest()
        facts["size"] = info.st_size
        # Half is generous: file systems differ in what they allocate.
        facts["sparse"] = info.st_blocks * 512 < info.st_size / 2
    if kind != "d" and info.st_nlink > 1:
        facts["same file as"] = first_names.setdefault(info.st_ino, name)
    return facts


def of_tree(top):
    """{name as bytes: facts}, b"" for the top itself. The caller must be able to read all of it."""
    top = os.fsencode(top)
    names = [b""]
    for folder, directories, files in os.walk(top):
        names += [os.path.relpath(os.path.join(folder, name), top) for name in directories + files]
    first_names = {}
    return {name: facts_of(os.path.join(top, name), first_names, name) for name in sorted(names)}


def differences(reference, ours):
    """The differences of two trees' facts, one line each."""
    lines = []
    for name in sorted(reference.keys() | ours.keys()):
        a, b = reference.get(name), ours.get(name)
        if a is None or b is None:
            lines.append(f"{name!r}: only {'ours' if a is None else 'in the reference'}")
            continue
        lines += [f"{name!r} ({a['kind']}): {field}: reference {show(field, a[field])}, ours {show(field, b[field])}"
                  for field in a if a[field] != b[field]]
    return lines


def show(field, value):
    return oct(value) if field == "mode" and value is not None else repr(value)
