"""The workloads: trees made from a fixed seed, and each of them as archives.

Everything is created once below a directory, where the next run finds it. A workload's parts:
  tree/NAME          the tree itself
  manifest/NAME      what bench-floor reads
  archive/NAME.FORM  the archives, see FORMS
"""
import array
import bisect
import glob
import mmap
import os
import random
import shutil
import subprocess

KIB, MIB = 1024, 1024 * 1024
FIRST_SECOND = 1_600_000_000
FRAME = 16 * MIB
INODE = 2 * KIB  # with its directory entry

# Sizes of the 111,477 files of five Python installations with their packages, as (part of all, bytes).
PYTHON_SIZES = [(0.0, 0), (0.01, 0), (0.05, 99), (0.1, 243), (0.2, 647), (0.3, 1298), (0.4, 2275), (0.5, 3676),
                (0.6, 6139), (0.7, 9961), (0.8, 16782), (0.9, 35084), (0.95, 63578), (0.98, 115789), (0.99, 176808),
                (0.999, 587776), (1.0, 4_000_000)]

# How each form is made, by a shell in the directory of the trees; $t the tree's name, $a the archive.
FORMS = {
    "tar": "tar --sort=name -cf $a $t",
    "tar.gz": "tar --sort=name -cf - $t | gzip -6 >$a",
    "tar.zst": "tar --sort=name -cf - $t | zstd -q -3 >$a",
    "frames.tar.zst": None,  # many independent frames: frames()
    "tar.xz": "tar --sort=name -cf - $t | xz -6 -T1 >$a",
    "blocks.tar.xz": "tar --sort=name -cf - $t | xz -6 -T2 --block-size=8MiB >$a",
    "tar.bz2": "tar --sort=name -cf - $t | bzip2 >$a",
    "zip": "rm -f $a && zip -qr $a $t",
    # A tar of the tars of its directories, and parts of 16 MiB: the archive is a glob.
    "nested.tar": "cd $t && mkdir $a.d && for d in */; do tar --sort=name -C $d -cf $a.d/${d%/}.tar .; done && "
                  "tar --sort=name --transform s,^.,$t, -C $a.d -cf $a . && rm -r $a.d",
    "parts.tar.gz": "tar --sort=name -cf - $t | gzip -6 | split -b 16M - $a.",
    "7z": "rm -f $a && 7zz a -bso0 -bsp0 $a $t",
}
SUFFIXES = {form: form.split(".", 1)[1] if form.startswith(("frames.", "blocks.", "nested.", "parts.")) else form
            for form in FORMS}


class Words:
    """Text that compresses as code does, to about a fourth."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk_"
        words = ["".join(self.random.choices(letters, k=self.random.randint(1, 11))).encode() for _ in range(6000)]
        # A few words are most of a text.
        self.table = [words[int(len(words) * (rank / 65536) ** 3)] for rank in range(65536)]
        self.spaces = [b" ", b" ", b" ", b"\n    ", b" = ", b"(", b")\n", b", "]

    def text(self, size):
        count = size // 6 + 16
        numbers = array.array("H", self.random.randbytes(2 * count))
        text = b" ".join(map(self.table.__getitem__, numbers))
        step = 61
        text = b"\n    ".join(text[at:at + step] for at in range(0, len(text), step))
        return text[:size].ljust(size, b"\n")

    def noise(self, size):
        return self.random.randbytes(size)


class Tree:
    """Writes a tree's files and its manifest."""

    def __init__(self, top):
        self.top = top
        self.lines = []
        self.directories = {}
        os.makedirs(top)

    def directory(self, name):
        if name in self.directories:
            return
        if "/" in name:
            self.directory(name.rsplit("/", 1)[0])
        os.mkdir(f"{self.top}/{name}")
        self.directories[name] = FIRST_SECOND + len(self.lines)
        self.lines.append(f"d 0 {self.directories[name]} {name}")

    def file(self, name, parts):
        self.directory(name.rsplit("/", 1)[0])
        size = 0
        with open(f"{self.top}/{name}", "wb") as file:
            for part in parts:
                size += file.write(part)
        second = FIRST_SECOND + len(self.lines)
        os.utime(f"{self.top}/{name}", (second, second))
        self.lines.append(f"f {size} {second} {name}")

    def finish(self, manifest):
        for name, second in self.directories.items():
            os.utime(f"{self.top}/{name}", (second, second))
        os.utime(self.top, (FIRST_SECOND, FIRST_SECOND))
        with open(manifest, "w", encoding="ascii") as file:
            file.write("\n".join(self.lines) + "\n")


def make_small(tree, scale):
    words = Words("small")
    for number in range(int(100_000 * scale)):
        tree.file(f"c{number % 100:02}/f{number:06}.json", [words.text(2 * KIB)])


def make_images(tree, scale):
    words = Words("images")
    for number in range(int(60_000 * scale)):
        tree.file(f"n{number % 60:02}/image{number:06}.jpg", [words.noise(20 * KIB)])


def python_size(part):
    at = bisect.bisect_right(PYTHON_SIZES, (part, 1 << 62)) - 1
    (low, size), (high, larger) = PYTHON_SIZES[at], PYTHON_SIZES[at + 1]
    return int(size + (larger - size) * (part - low) / (high - low))


def make_python(tree, scale):
    words = Words("python")
    count = int(20_000 * scale)
    for number in range(count):
        size = python_size(words.random.random())
        package = f"lib/package{number * 100 // count:02}/part{number % 17:02}"
        if number % 2:
            # Compiled files compress to about a half.
            tree.file(f"{package}/__pycache__/m{number:05}.pyc", [words.text(size // 2), words.noise(size - size // 2)])
        else:
            tree.file(f"{package}/m{number:05}.py", [words.text(size)])


def make_large(tree, scale):
    words = Words("large")
    for number, part in enumerate((0.5, 0.25, 0.15, 0.1)):
        blocks = max(int(2048 * part * scale), 1)
        tree.file(f"weights/part{number}.bin",
                  (words.noise(MIB) if block % 2 else words.text(MIB) for block in range(blocks)))


MAKERS = {"small": make_small, "images": make_images, "python": make_python, "large": make_large,
          # xz, bzip2 and 7z decode slowly: a fourth of the Python tree.
          "source": lambda tree, scale: make_python(tree, scale / 4)}


def frames(tar, archive):
    """zstd of independent frames of 16 MiB, as pzstd and zstd's seekable format make them."""
    source = subprocess.Popen(tar, shell=True, stdout=subprocess.PIPE)
    with open(archive, "wb") as file:
        while block := source.stdout.read(FRAME):
            file.write(subprocess.run(["zstd", "-q", "-3", "-c"], input=block, stdout=subprocess.PIPE, check=True).stdout)
    if source.wait() != 0:
        raise RuntimeError(f"{tar} failed")


class Workloads:
    """Creates what is requested below `top`; the user owns every path that it returns."""

    def __init__(self, top, scale, own, as_user):
        """own(path) gives a directory to the user; as_user(action) calls action as the user."""
        self.top = top
        self.scale = scale
        self.as_user = as_user
        stamp = f"{top}/made"
        made = f"workloads 1, scale {scale}\n"
        if os.path.exists(stamp):
            with open(stamp, encoding="ascii") as file:
                if file.read() == made:
                    return
        elif os.path.isdir(top) and os.listdir(top):
            raise SystemExit(f"{top} holds something else: name an empty directory with --dir")
        for name in ("tree", "manifest", "archive"):
            shutil.rmtree(f"{top}/{name}", ignore_errors=True)
            os.mkdir(f"{top}/{name}")
            own(f"{top}/{name}")
        with open(stamp, "w", encoding="ascii") as file:
            file.write(made)

    def tree(self, name):
        path = f"{self.top}/tree/{name}"
        if not os.path.isdir(path):
            self.as_user(lambda: self._make_tree(name, path))
        return path

    def manifest(self, name):
        return f"{self.top}/manifest/{name}"

    def bytes_in_memory(self, name):
        """The size of the tree in the kernel's caches when it is written."""
        total = 0
        with open(self.manifest(name), encoding="utf-8") as file:
            for entry in file:
                pages = -(-int(entry.split(" ", 2)[1]) // mmap.PAGESIZE)
                total += pages * mmap.PAGESIZE + INODE
        return total

    def archive(self, name, form):
        path = f"{self.top}/archive/{name}.{form}"
        if form.startswith("parts."):
            path += ".*"
        if not glob.glob(path):
            self.tree(name)
            self.as_user(lambda: self._make_archive(name, form, path))
        return path

    def _make_tree(self, name, path):
        shutil.rmtree(f"{path}.part", ignore_errors=True)
        tree = Tree(f"{path}.part")
        MAKERS[name](tree, self.scale)
        tree.finish(self.manifest(name))
        os.rename(f"{path}.part", path)

    def _make_archive(self, name, form, path):
        part = f"{self.top}/archive/part.{SUFFIXES[form]}"
        os.chdir(f"{self.top}/tree")
        if FORMS[form] is None:
            frames(f"tar --sort=name -cf - {name}", part)
        else:
            subprocess.run(["bash", "-o", "pipefail", "-c", FORMS[form]], check=True,
                           env={**os.environ, "t": name, "a": part})
        for made in glob.glob(f"{part}*"):
            os.rename(made, path.removesuffix(".*") + made.removeprefix(part))

    def remove(self, name):
        shutil.rmtree(f"{self.top}/tree/{name}", ignore_errors=True)
        for file in os.scandir(f"{self.top}/archive"):
            if file.name.startswith(f"{name}."):
                os.unlink(file.path)
