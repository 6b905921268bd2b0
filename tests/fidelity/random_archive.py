"""Archives that do not correspond to a tree: repeated names, with other kinds, and links to what is replaced later."""
import io
import os
import posixpath
import stat
import tarfile
import time
import zipfile

from random_tree import ANY_TIME, SIGNED_TIME, SMALL, Traits, content_of, name_of, time_of

FORMATS = [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
MODES = [0o644, 0o600, 0o755, 0o444, 0o000, 0o4755, 0o666]


class Model:
    """The tree after the entries so far. Allows only what GNU tar extracts without an error."""

    def __init__(self, random, traits):
        self.random = random
        self.kinds = {}
        self.directories = {}  # of those that have an entry
        self.names = []
        for _ in range(random.choice([5, 20, 40, 300])):
            parent = random.choice([""] + self.names)
            name = posixpath.join(parent, name_of(random, traits).decode("utf-8", "surrogateescape"))
            if len(name) < 400 and name not in self.names:
                self.names.append(name)

    def pick(self):
        """A name and a kind that are allowed next."""
        name = self.random.choice(self.names)
        parent = posixpath.dirname(name)
        while parent:
            if self.kinds.get(parent, "directory") != "directory":
                return None
            parent = posixpath.dirname(parent)
        kind = self.random.choice(["directory", "file", "file", "symlink", "hard link"])
        is_filled = any(other.startswith(name + "/") for other in self.kinds)
        before = self.kinds.get(name)
        if is_filled:
            kind = "directory"
        return name, kind

    def took(self, name, kind):
        self.kinds[name] = kind
        if kind != "directory":
            self.directories.pop(os.fsencode(name), None)
        parent = posixpath.dirname(name)
        while parent:
            self.kinds.setdefault(parent, "directory")
            parent = posixpath.dirname(parent)

    def some_file(self, name):
        files = [other for other, kind in self.kinds.items() if kind == "file" and other != name]
        return self.random.choice(files) if files else None


def tar(random, path):
    model = Model(random, Traits())
    with tarfile.open(path, "w", format=random.choice(FORMATS), errors="surrogateescape") as archive:
        for _ in range(random.choice([1, 30, 150, 1000])):
            picked = model.pick()
            if picked:
                add_to_tar(random, archive, model, *picked)
    return model.directories


def add_to_tar(random, archive, model, name, kind):
    info = tarfile.TarInfo(random.choice(["", "", "./"]) + name)
    info.mode = random.choice(MODES)
    # Only pax holds parts of a second.
    info.mtime = time_of(random, Traits(times=ANY_TIME)) // 1_000_000_000
    data = b""
    if kind == "directory":
        info.type, info.mode = tarfile.DIRTYPE, random.choice([0o755, 0o700, 0o1777, 0o750])
    elif kind == "symlink":
        # GNU tar puts an empty file in the place of one that leads up or is absolute, and mixes it up with what has
        # its name later.
        info.type, info.linkname = tarfile.SYMTYPE, random.choice(["n1", "a/n2", "none", "l" * 150])
    elif kind == "hard link":
        target = model.some_file(name)
        if target is None:
            return
        info.type, info.linkname = tarfile.LNKTYPE, target
    else:
        data = content_of(random, SMALL) if len(model.names) > 20 else content_of(random)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
    if kind == "directory":
        model.directories[os.fsencode(name)] = {"time": info.mtime * 1_000_000_000, "mode": info.mode}
    # A later hard link is one more name of a file.
    model.took(name, "file" if kind == "hard link" else kind)


def zip_of(random, path):
    """Each name occurs once: Python's zipfile warns, unzip takes the last and 7-Zip both."""
    model = Model(random, Traits(names="text"))
    written = set()
    with zipfile.ZipFile(path, "w") as archive:
        for _ in range(random.choice([1, 30, 100])):
            picked = model.pick()
            if picked and picked[0] not in written and picked[1] != "hard link":
                written.add(picked[0])
                add_to_zip(random, archive, model, *picked)
    return model.directories


def add_to_zip(random, archive, model, name, kind):
    second = max(time_of(random, Traits(times=SIGNED_TIME)) // 1_000_000_000, 400_000_000)
    info = zipfile.ZipInfo(name + ("/" if kind == "directory" else ""), time.localtime(second)[:6])
    info.create_system = 3
    info.compress_type = random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    if kind == "file" and random.random() < 0.1:
        info.compress_type = zipfile.ZIP_BZIP2
    kinds = {"directory": stat.S_IFDIR | 0o755, "symlink": stat.S_IFLNK | 0o777}
    info.external_attr = kinds.get(kind, stat.S_IFREG | random.choice(MODES)) << 16
    data = content_of(random) if kind == "file" else b"n1/../n2" if kind == "symlink" else b""
    archive.writestr(info, data)
    if kind == "directory":
        # The format has pairs of seconds.
        made = int(time.mktime(info.date_time + (0, 0, -1))) // 2 * 2 * 1_000_000_000
        model.directories[os.fsencode(name)] = {"time": made, "mode": 0o755}
    model.took(name, kind)
