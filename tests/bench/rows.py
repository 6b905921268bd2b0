"""The rows of the table: which workload in which form, from what source, against which programs, and the goals.

A goal is how many times faster than that program we want to be; None where none was set.
"""
import dataclasses

# Each is run in an empty directory, by the shell; $s the source, $n the workload's name.
PEERS = {
    "tar xf": "tar xf $s",
    "cp, then tar xf": "cp $s copy && tar xf copy",
    "tar xzf": "tar xzf $s",
    "igzip -dc | tar x": "igzip -dc $s | tar xf -",
    "tar --zstd -xf": "tar --zstd -xf $s",
    "tar xJf": "tar xJf $s",
    "xz -dc -T0 | tar x": "xz -dc -T0 $s | tar xf -",
    "tar xjf": "tar xjf $s",
    "unzip": "unzip -q $s",
    "7zz x": "7zz x -y -bso0 -bsp0 $s",
    "cp -a": "cp -a $s $n",
    "rsync -a": "rsync -a $s/ $n/",
    "dd of the archive": "dd if=$s of=/dev/null bs=4M status=none",
}


@dataclasses.dataclass(frozen=True)
class Row:
    workload: str
    form: str  # of workloads.FORMS, or "directory"
    peers: dict  # name → goal
    source: str = "warm"  # warm: in the page cache; cold: nothing of it; far: behind bench-slow-mount

    @property
    def name(self):
        return f"{self.workload}.{self.form}" + ("" if self.source == "warm" else f", {self.source}")


ROWS = [
    Row("small", "tar", {"tar xf": 1.9}),
    Row("small", "tar.gz", {"tar xzf": 2.0, "igzip -dc | tar x": 2.4}),
    Row("small", "tar.zst", {"tar --zstd -xf": 2.0}),
    Row("small", "frames.tar.zst", {"tar --zstd -xf": 2.0}),
    Row("small", "zip", {"unzip": 3.8, "7zz x": 2.8}),
    Row("small", "directory", {"cp -a": 2.5, "rsync -a": 2.5}),
    Row("images", "tar", {"tar xf": 2.2, "cp, then tar xf": 4.5}),
    Row("images", "tar.gz", {"tar xzf": 3.2, "igzip -dc | tar x": 1.9}),
    Row("images", "tar.zst", {"tar --zstd -xf": 2.1}),
    Row("images", "frames.tar.zst", {"tar --zstd -xf": 2.1}),
    Row("images", "zip", {"unzip": 12.0, "7zz x": 3.2}),
    Row("images", "tar", {"tar xf": None, "dd of the archive": None}, "cold"),
    Row("images", "tar", {"tar xf": None, "dd of the archive": None}, "far"),
    Row("images", "zip", {"unzip": None, "7zz x": None}, "far"),
    Row("python", "tar", {"tar xf": 2.3}),
    Row("python", "tar.gz", {"tar xzf": 4.0}),
    Row("python", "directory", {"cp -a": 3.0, "rsync -a": 3.0}, "cold"),
    Row("source", "tar.xz", {"tar xJf": 1.0}),
    Row("source", "blocks.tar.xz", {"tar xJf": 1.0, "xz -dc -T0 | tar x": 1.0}),
    Row("source", "tar.bz2", {"tar xjf": 1.0}),
    Row("source", "directory", {"cp -a": None, "rsync -a": None}, "far"),
    Row("source", "7z", {"7zz x": None}),
    Row("large", "tar", {"tar xf": 2.5}),
    Row("large", "tar.gz", {"tar xzf": 1.0, "igzip -dc | tar x": 1.0}),
    Row("large", "tar.zst", {"tar --zstd -xf": 1.0}),
    Row("large", "frames.tar.zst", {"tar --zstd -xf": 1.0}),
    Row("large", "zip", {"unzip": 1.0, "7zz x": 1.0}),
]
