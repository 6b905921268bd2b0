"""The rows of the table: the workload, its form, its source, and the programs to compare with."""
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
    "tar xf, then each tar": "tar xf $s && for t in $n/*.tar; do mkdir ${t%.tar} && tar xf $t -C ${t%.tar} && rm $t; done",
    "cat | tar xz": "cat $s | tar xzf -",
    "dd of the archive": "dd if=$s of=/dev/null bs=4M status=none",
}


@dataclasses.dataclass(frozen=True)
class Row:
    workload: str
    form: str  # of workloads.FORMS, or "directory"
    peers: tuple  # names in PEERS
    source: str = "warm"  # warm: in the page cache; cold: nothing of it; far: behind bench-slow-mount
    keys: str = ""  # of --stage-dataset

    @property
    def name(self):
        return f"{self.workload}.{self.form}" + ("" if self.source == "warm" else f", {self.source}")


ROWS = [
    Row("small", "tar", ("tar xf",)),
    Row("small", "tar.gz", ("tar xzf", "igzip -dc | tar x")),
    Row("small", "tar.zst", ("tar --zstd -xf",)),
    Row("small", "frames.tar.zst", ("tar --zstd -xf",)),
    Row("small", "zip", ("unzip", "7zz x")),
    Row("small", "directory", ("cp -a", "rsync -a")),
    Row("images", "tar", ("tar xf", "cp, then tar xf")),
    Row("images", "tar.gz", ("tar xzf", "igzip -dc | tar x")),
    Row("images", "tar.zst", ("tar --zstd -xf",)),
    Row("images", "frames.tar.zst", ("tar --zstd -xf",)),
    Row("images", "zip", ("unzip", "7zz x")),
    Row("images", "nested.tar", ("tar xf, then each tar",), keys="nested"),
    Row("images", "parts.tar.gz", ("cat | tar xz",), keys="join"),
    Row("images", "tar", ("tar xf", "dd of the archive"), "cold"),
    Row("images", "tar", ("tar xf", "dd of the archive"), "far"),
    Row("images", "zip", ("unzip", "7zz x"), "far"),
    Row("python", "tar", ("tar xf",)),
    Row("python", "tar.gz", ("tar xzf",)),
    Row("python", "directory", ("cp -a", "rsync -a"), "cold"),
    Row("source", "tar.xz", ("tar xJf",)),
    Row("source", "blocks.tar.xz", ("tar xJf", "xz -dc -T0 | tar x")),
    Row("source", "tar.bz2", ("tar xjf",)),
    Row("source", "directory", ("cp -a", "rsync -a"), "far"),
    Row("source", "7z", ("7zz x",)),
    Row("large", "tar", ("tar xf",)),
    Row("large", "tar.gz", ("tar xzf", "igzip -dc | tar x")),
    Row("large", "tar.zst", ("tar --zstd -xf",)),
    Row("large", "frames.tar.zst", ("tar --zstd -xf",)),
    Row("large", "zip", ("unzip", "7zz x")),
]
