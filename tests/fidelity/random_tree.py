"""Random trees with everything that is hard to extract, within what a format can hold (Traits)."""
import dataclasses
import os

KIB, MIB = 1024, 1024 * 1024

# What ext4 can hold is -2^31 to 3 * 2^32 + 2^31 - 1 seconds.
ANY_TIME = (-(1 << 31), 15_000_000_000)
OCTAL_TIME = (0, (1 << 33) - 1)
SIGNED_TIME = (0, (1 << 31) - 1)


@dataclasses.dataclass(frozen=True)
class Traits:
    names: str = "bytes"  # bytes: any but '/' and NUL; text: UTF-8 that no tool changes
    component: int = 255  # bytes of a name
    path: int = 3000  # bytes of a path, from the top
    link_path: int = 3000  # bytes of a link's text, and of the path of a file with hard links
    times: tuple = ANY_TIME
    symlinks: bool = True
    links: str = "any"  # inner: 7-Zip refuses links that lead up or are absolute
    hard_links: bool = True
    sparse: bool = True
    unreadable: bool = True  # files and directories that their owner may not read or enter
    closed_directories: bool = True  # that their owner may not write to
    odd_bits: bool = True  # set-uid, set-gid, sticky


def name_of(random, traits):
    pick = random.random()
    if pick < 0.3:
        name = b"n%d" % random.randrange(1000)
    elif pick < 0.4:
        name = random.choice([b".hidden", b"-dash", b" blank ", b"'quote\"", b"star*[a]?", b"...", b"$(id)", b"a.tar.gz",
                              b"~", b"#x", b"%41", b"&;|", b"a" * 8 + b".py"])
    elif pick < 0.5:
        name = random.choice(["é-composed", "日本語", "🐌", "Ω", "ß"]).encode()
    elif pick < 0.6:
        name = b"l" * random.randint(60, 255)
    elif traits.names == "bytes":
        name = bytes(random.choice([c for c in range(1, 256) if c != 0x2f]) for _ in range(random.randint(1, 40)))
    else:
        name = b"word-%d" % random.randrange(10**6)
    name = name[:traits.component]
    if name in (b".", b".."):
        return b"dots"
    try:
        name.decode()
    except UnicodeDecodeError:
        return name if traits.names == "bytes" else b"cut-%d" % random.randrange(10**6)
    return name


def time_of(random, traits):
    low, high = traits.times
    second = random.choice([random.randint(1_000_000_000, 1_700_000_000), random.randint(low, high), low, high, 0, -1, 1,
                            (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 33, 4_500_000_000])
    second = min(max(second, low), high)
    return second * 1_000_000_000 + random.choice([0, 1, 999_999_999, 500_000_000, random.randrange(10**9)])


SMALL = [0, 1, 511, 512, 513, 1024, 2000]


def content_of(random, sizes=SMALL + [10_239, 10_240, 65_536, 200_001]):
    size = random.choice(sizes)
    if sizes is SMALL:
        return random.randbytes(size)
    pick = random.random()
    if pick < 0.015:
        size = random.randint(2 * MIB, 5 * MIB)
    elif pick < 0.018:
        size = 12 * MIB + 1
    return random.choice([random.randbytes, bytes, lambda n: (b"the same line again\n" * (n // 20 + 1))[:n]])(size)


class Builder:
    """Makes one tree. Sets modes and times last, from the bottom up."""

    def __init__(self, random, traits, top, owner):
        self.random, self.traits, self.top, self.owner = random, traits, os.fsencode(top), owner
        self.directories = [b""]
        self.taken = {b""}
        self.files = []  # that may get more names
        self.modes = {}
        # GNU tar makes a hard link when the directory of the other name may be closed already.
        self.may_close = traits.unreadable and traits.closed_directories and random.random() < 0.5
        self.is_wide = False  # has many names, and so small files
        os.mkdir(self.top)

    def run(self, count):
        self.is_wide = count > 100
        if self.random.random() < 0.3:
            self.add_deep(self.random.randint(10, 200))
        for _ in range(count):
            path = self.free_path()
            if path is not None:
                self.add(path)
        # The top is left: its owner must be able to remove it.
        self.modes[b""] = self.random.choice([0o755, 0o700, 0o775])
        if self.owner:
            for path in self.taken:
                os.chown(self.at(path), *self.owner, follow_symlinks=False)
        for path in sorted(self.taken, reverse=True):
            if path in self.modes:
                os.chmod(self.at(path), self.modes[path])
        for path in sorted(self.taken, reverse=True):
            when = time_of(self.random, self.traits)
            os.utime(self.at(path), ns=(when, when), follow_symlinks=False)

    def at(self, path):
        return os.path.join(self.top, path)

    def free_path(self):
        for _ in range(20):
            # Newer directories more often: so trees become deep.
            parent = self.directories[int(len(self.directories) * self.random.random() ** 0.7)]
            path = (parent + b"/" if parent else b"") + name_of(self.random, self.traits)
            if path not in self.taken and len(path) <= self.traits.path - 2:
                return path
        return None

    def add_deep(self, levels):
        path = b""
        for _ in range(levels):
            path += (b"/" if path else b"") + b"deep"
            if len(path) > self.traits.path - 70:
                return
            self.add_directory(path)
            self.taken.add(path)

    def add(self, path):
        pick = self.random.random()
        traits = self.traits
        if pick < 0.2:
            self.add_directory(path)
        elif pick < 0.3 and traits.symlinks:
            os.symlink(self.link_text(), self.at(path))
            if len(path) <= traits.link_path:
                self.files.append(path)
        elif pick < 0.42 and traits.hard_links and not self.may_close and self.files:
            if len(path) > traits.link_path:
                return
            os.link(self.at(self.random.choice(self.files)), self.at(path), follow_symlinks=False)
        elif pick < 0.5 and traits.sparse and not self.is_wide:
            self.add_sparse(path)
        else:
            with open(self.at(path), "wb") as file:
                file.write(content_of(self.random, SMALL) if self.is_wide else content_of(self.random))
            self.made_file(path)
        self.taken.add(path)

    def add_directory(self, path):
        os.mkdir(self.at(path))
        self.directories.append(path)
        modes = [0o755, 0o700, 0o775, 0o777, 0o750]
        if self.traits.closed_directories:
            modes += [0o555, 0o500]
        if self.may_close:
            modes += [0o000, 0o300, 0o311, 0o400]
        if self.traits.odd_bits:
            modes += [0o1777, 0o2755]
        self.modes[path] = self.random.choice(modes)

    def made_file(self, path):
        modes = [0o644, 0o600, 0o664, 0o666, 0o755, 0o777, 0o444, 0o400, 0o640]
        if self.traits.unreadable:
            modes += [0o000, 0o200, 0o111]
        if self.traits.odd_bits:
            modes += [0o4755, 0o2755, 0o1644, 0o6711]
        self.modes[path] = self.random.choice(modes)
        if len(path) <= self.traits.link_path:
            self.files.append(path)

    def link_text(self):
        some = [b"n1", b"../n2", b"/etc/passwd", b"no/such/file", b".", b"..", b"/", b"a//b/./c", b" ",
                self.random.choice(sorted(self.taken)) or b"top"]
        if self.traits.links == "inner":
            return self.random.choice([b"n1", b"no/such/file", b"t" * 100])
        if self.traits.names == "bytes":
            some.append(b"l\xe9\n\x01" * self.random.randint(1, 20))
        some.append(b"t" * self.random.randint(90, 110))
        some.append(b"d/" * self.random.randint(100, 400))
        return self.random.choice(some)[:self.traits.link_path]

    # Holes are large and most of the file, so that what is sparse is sparse on any file system.
    def add_sparse(self, path):
        position = 0
        with open(self.at(path), "wb") as file:
            for _ in range(self.random.choice([0, 1, 1, 2, 5, 30])):
                position += self.random.choice([0, 64 * KIB, 256 * KIB, 300_001])
                file.seek(position)
                position += file.write(self.random.randbytes(self.random.choice([1, 100, 4096, 20_000])))
            file.truncate(position + self.random.choice([512 * KIB, MIB, 2 * MIB + 17]))
        self.made_file(path)


def build(random, traits, top, owner=None):
    """owner: (uid, gid) of the whole tree, or None: the caller's."""
    Builder(random, traits, top, owner).run(random.choice([1, 15, 40, 40, 60, 60, 60, 500]))
