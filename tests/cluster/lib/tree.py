#!/usr/bin/python3
"""A directory tree with everything that is hard to copy, and a listing to compare two trees.

  tree.py make DIR                  makes it
  tree.py list DIR [--ignore=...]   one line for each name: type, mode, mtime in ns, link target,
                                    first name of the same file, size, sparse or not, SHA-256
        --ignore takes a comma list of: link-times, dir-times, subseconds, sparse, top (DIR's own time)
  tree.py hostile KIND FILE         a tar that tries to leave its destination
  tree.py flip FILE OFFSET          changes one byte; a negative offset counts from the end

Parts, each in its own directory, so that a format can omit what it cannot hold:
  base, links, dirs, names  everything holds these    sparse  files with holes
  odd     names that zip and 7z change                long    paths of more than 100 bytes (not v7)
  extreme names of 255 bytes, paths of more than 256 (only gnu, pax, zip)
  late    after 2038                                  early   before 1970 (only pax)
"""
import hashlib
import os
import stat
import sys
import tarfile

FIRST_NS = 1_500_000_000_123_456_789
MIB = 1024 * 1024


def write(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def noise(size, seed):
    return hashlib.shake_128(seed.encode()).digest(size)


def make_base(top):
    for mode in (0o644, 0o600, 0o755, 0o664, 0o666, 0o444, 0o400, 0o4755):
        write(f"{top}/base/mode{mode:o}", f"{mode:o}\n".encode(), mode)
    write(f"{top}/base/empty", b"")
    write(f"{top}/base/noise", noise(300_001, "noise"))
    write(f"{top}/base/text", b"the same line again\n" * 5000)


def make_links(top):
    write(f"{top}/links/file", b"linked\n")
    for name, target in {"relative": "file", "up": "../base/text", "absolute": "/etc/passwd",
                         "dangling": "no/such/file", "directory": "../base"}.items():
        os.symlink(target, f"{top}/links/{name}")
    os.mkdir(f"{top}/links/below")
    os.link(f"{top}/links/file", f"{top}/links/second")
    os.link(f"{top}/links/file", f"{top}/links/below/third")


def make_dirs(top):
    os.makedirs(f"{top}/dirs/empty")
    for mode in (0o700, 0o555, 0o500, 0o1777, 0o2755, 0o775):
        write(f"{top}/dirs/mode{mode:o}/below/file", b"in a directory\n")
        os.chmod(f"{top}/dirs/mode{mode:o}", mode)


def make_names(top):
    for name in (" blank ", "-dash", "'quote\"", "star*[a]?", "...", ".hidden", "#hash", "$(id)",
                 "\u00e9-composed", "\u65e5\u672c\u8a9e", "\U0001f40c",
                 "data.tar.gz"):
        write(f"{top}/names/{name}", name.encode())
    for name in ("new\nline", "tab\tcontrol\x01", "back\\slash", "end.", os.fsdecode(b"latin1-\xe9\xff"),
                 "e\u0301-decomposed"):
        write(f"{top}/odd/{name}", os.fsencode(name))


def make_long(top):
    part = "p" * 60
    write(f"{top}/long/{part}/{part}/{'f' * 60}", b"a path of more than 100 bytes\n")
    write(f"{top}/long/{'d' * 90}/{'n' * 99}", b"a name of 99\n")
    deep = "/".join(f"{number:02}" + "d" * 58 for number in range(10))
    write(f"{top}/extreme/{deep}/file", b"a path of more than 600 bytes\n")
    os.link(f"{top}/extreme/{deep}/file", f"{top}/extreme/{deep}/hard link")
    write(f"{top}/extreme/{'x' * 255}", b"255 bytes\n")
    write(f"{top}/extreme/{'é' * 127}", b"254 bytes of UTF-8\n")
    write(f"{top}/extreme/{'y' * 101}", b"101 bytes\n")
    os.symlink("target/" * 30, f"{top}/extreme/link to 210 bytes")


def make_sparse(top):
    os.mkdir(f"{top}/sparse")
    with open(f"{top}/sparse/holes", "wb") as file:
        file.write(noise(5000, "head"))
        file.seek(2 * MIB)
        file.write(noise(70_000, "middle"))
        file.truncate(4 * MIB + 17)
    with open(f"{top}/sparse/one hole", "wb") as file:
        file.truncate(MIB)
    with open(f"{top}/sparse/hole first", "wb") as file:
        file.seek(MIB)
        file.write(b"end")


def set_times(top):
    """Works bottom up, since a directory's time changes with its contents."""
    number = 0
    for folder, directories, files in os.walk(top, topdown=False):
        for name in sorted(files + directories) + (["."] if folder == top else []):
            number += 1
            when = FIRST_NS + number * 86_400_000_000_007
            os.utime(os.path.join(folder, name), ns=(when, when), follow_symlinks=False)


def make(top):
    os.mkdir(top)
    make_base(top)
    make_links(top)
    make_dirs(top)
    make_names(top)
    make_long(top)
    make_sparse(top)
    write(f"{top}/late/2040", b"late")
    write(f"{top}/early/1969", b"early")
    set_times(top)
    os.utime(f"{top}/late/2040", ns=(0, 2_208_988_800_000_000_000))
    os.utime(f"{top}/early/1969", ns=(0, -1_000_000_000))


def describe(path, top, first_names, ignore):
    info = os.lstat(path)
    kind = stat.filemode(info.st_mode)[0]
    time = info.st_mtime_ns
    if "subseconds" in ignore:
        time = time // 1_000_000_000
    if (kind == "l" and "link-times" in ignore) or (kind == "d" and "dir-times" in ignore):
        time = "-"
    if path == top and "top" in ignore:
        time = "-"
    mode = "-" if kind == "l" else f"{stat.S_IMODE(info.st_mode):04o}"
    name = ascii(os.path.relpath(path, top))
    target = ascii(os.readlink(path)) if kind == "l" else "-"
    size, sparse, content = "-", "-", "-"
    if kind == "-":
        size = info.st_size
        # Half is generous: file systems differ in what they allocate.
        sparse = "sparse" if info.st_blocks * 512 < info.st_size / 2 else "full"
        if "sparse" in ignore:
            sparse = "-"
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()[:16]
    group = first_names.setdefault((info.st_dev, info.st_ino), name) if info.st_nlink > 1 and kind != "d" else "-"
    return f"{name} {kind} {mode} {time} {target} {group} {size} {sparse} {content}"


def listing(top, ignore):
    names = [top]
    for folder, directories, files in os.walk(top):
        names += [os.path.join(folder, name) for name in directories + files]
    first_names = {}
    for path in sorted(names, key=os.fsencode):
        print(describe(path, top, first_names, ignore))


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, size, 0o644
    return info


HOSTILE = {
    "dotdot": [member("good"), member("a/../../escaped")],
    "absolute": [member("/etc/nodestage-escaped")],
    "through-link": [member("way", tarfile.SYMTYPE, "/tmp"), member("way/escaped")],
    "through-upward-link": [member("way", tarfile.SYMTYPE, ".."), member("way/escaped")],
    "hard-link": [member("good"), member("stolen", tarfile.LNKTYPE, "../../../etc/passwd")],
    "hard-link-through-link": [member("way", tarfile.SYMTYPE, "/etc"),
                               member("stolen", tarfile.LNKTYPE, "way/passwd")],
    "file-as-directory": [member("name"), member("name/below")],
    "device": [member("good"), member("null", tarfile.CHRTYPE)],
}


def hostile(kind, path):
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for info in HOSTILE[kind]:
            archive.addfile(info)


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x55]))


def main():
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "make":
        os.umask(0o022)
        make(arguments[0])
    elif verb == "list":
        ignore = arguments[1].removeprefix("--ignore=").split(",") if len(arguments) > 1 else []
        listing(arguments[0], ignore)
    elif verb == "hostile":
        hostile(arguments[0], arguments[1])
    elif verb == "flip":
        flip(arguments[0], int(arguments[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
