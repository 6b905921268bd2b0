"""The formats: how their archives are made, which tool is the reference, and what is not compared."""
import dataclasses
import os
import subprocess

import facts
import intended
import random_archive
from random_tree import ANY_TIME, OCTAL_TIME, SIGNED_TIME, Traits

TAR = Traits()
USTAR = Traits(component=50, path=190, link_path=98, times=OCTAL_TIME)
V7 = Traits(component=98, path=98, link_path=98, times=OCTAL_TIME)
OPEN_USTAR = dataclasses.replace(USTAR, closed_directories=False)
OPEN_V7 = dataclasses.replace(V7, closed_directories=False)
# Info-ZIP and 7-Zip change names that are not UTF-8 or hold control characters.
ZIP = Traits(names="text", times=SIGNED_TIME)
SEVEN_ZIP = Traits(names="text", times=SIGNED_TIME, hard_links=False, links="inner")
COPY = Traits(unreadable=False)

# Without directories that are closed to their owner: GNU tar closes them before it has seen the whole archive, so it
# fails where an archive comes back to one. We close them at the end.
OPEN_TAR = Traits(closed_directories=False)
BSDTAR_GNU = Traits(closed_directories=False, times=OCTAL_TIME)  # bsdtar writes no other times there
BSDTAR_PAX = Traits(closed_directories=False, times=(0, ANY_TIME[1]))  # and negative ones wrongly

COMPRESSORS = {"": "cat", ".gz": "gzip", ".bz2": "bzip2", ".xz": "xz -1", ".zst": "zstd -q", ".lz4": "lz4 -q",
               ".lzma": "xz -1 --format=lzma"}
DECOMPRESS = """case $a in *.gz) gzip -dc $a;; *.bz2) bzip2 -dc $a;; *.xz) xz -dc $a;; *.zst) zstd -dcq $a;;
*.lz4) lz4 -dcq $a;; *.lzma) xz -dc --format=lzma $a;; *) cat $a;; esac | """
UNTAR = DECOMPRESS + "tar xf -"


@dataclasses.dataclass(frozen=True)
class Format:
    name: str
    suffix: str
    traits: Traits
    pack: object  # a shell command in the tree's directory, or a function (random, archive); $a: the archive
    unpack: str  # a shell command of the user in an empty directory
    intended: tuple = ()
    allowed: tuple = (0,)  # the unpacking tool's codes
    needs: tuple = ()  # programs


def tar(name, options, traits=TAR, what=".", **more):
    shuffled = "find . -mindepth 1 -print0 | shuf -z --random-source=<(yes) >$a.names && " if what != "." else ""
    return Format(name, "tar", traits, f"{shuffled}tar {options} -cf $a {what}", UNTAR, **more)


def bsdtar(name, options, traits=OPEN_TAR, unpack=UNTAR, differences=(intended.LATE_DIRECTORIES,)):
    return Format(name, "tar", traits, f"bsdtar {options} -cf $a .", unpack, differences, needs=("bsdtar",))


ZIP_INTENDED = (intended.MODES, intended.LINK_TIMES, intended.TOP, intended.HOLES)

FORMATS = [
    tar("gnu", "--format=gnu"),
    tar("gnu-sparse", "--format=gnu -S"),
    tar("oldgnu", "--format=oldgnu -S"),
    tar("pax", "--format=pax"),
    tar("pax-sparse-0.0", "--format=pax -S --sparse-version=0.0"),
    tar("pax-sparse-0.1", "--format=pax -S --sparse-version=0.1"),
    tar("pax-sparse-1.0", "--format=pax -S --sparse-version=1.0"),
    tar("pax-global", "--format=pax --pax-option=globexthdr.name=g,comment=all,delete=atime,delete=ctime"),
    tar("ustar", "--format=ustar", USTAR),
    tar("v7", "--format=v7", V7),
    tar("shuffled", "--format=gnu --no-recursion --null", OPEN_TAR, what="-T $a.names",
        intended=(intended.TOP, intended.LATE_DIRECTORIES)),
    bsdtar("bsdtar-pax", "--format=pax", BSDTAR_PAX),
    bsdtar("bsdtar-gnu", "--format=gnutar", BSDTAR_GNU),
    bsdtar("bsdtar-ustar", "--format=ustar", OPEN_USTAR),
    bsdtar("bsdtar-v7", "--format=v7tar", OPEN_V7),
    bsdtar("bsdtar-itself", "--format=pax", TAR, DECOMPRESS + "bsdtar -xf -",
           (intended.TOP, intended.BSDTAR_NEGATIVE)),
    # As cat joins two archives; tar -i goes on behind the zeros.
    Format("joined-tar", "tar", OPEN_TAR,
           "find . -mindepth 1 -print0 | split -t '\\0' -n r/2 - $a. && for i in $a.aa $a.ab; do "
           "tar --format=pax --no-recursion --null -cf - -T $i; done >$a && rm $a.aa $a.ab", DECOMPRESS + "tar xif -",
           intended=(intended.TOP, intended.LATE_DIRECTORIES)),
    Format("python-tar", "tar", OPEN_TAR, random_archive.tar, UNTAR,
           intended=(intended.TOP, intended.LATE_DIRECTORIES)),
    Format("zip", "zip", ZIP, "zip -qry $a .", "unzip -q $a", intended=ZIP_INTENDED),
    Format("zip-stored", "zip", ZIP, "zip -qry0 $a .", "unzip -q $a", intended=ZIP_INTENDED),
    Format("zip-streamed", "zip", ZIP, "zip -qry - . | cat >$a", "unzip -q $a", intended=ZIP_INTENDED),
    Format("python-zip", "zip", ZIP, random_archive.zip_of, "unzip -qo $a",
           intended=ZIP_INTENDED + (intended.LATE_DIRECTORIES, intended.LATE_MODES), allowed=(0, 1)),  # 1: holds nothing
    Format("7zz-zip", "zip", ZIP, "7zz a -bso0 -bsp0 -snl -tzip $a .", "unzip -q $a", intended=ZIP_INTENDED,
           needs=("7zz",)),
    Format("7zz-7z", "7z", SEVEN_ZIP, "7zz a -bso0 -bsp0 -snl $a .", "7zz x -y -bso0 -bsp0 $a", needs=("7zz",),
           intended=(intended.MODES, intended.LINK_TIMES, intended.TOP, intended.HOLES, intended.SUBSECONDS,
                     intended.OPEN_DIRECTORIES)),
    Format("7zz-tar", "tar", ZIP, "7zz a -bso0 -bsp0 -snl -ttar $a .", UNTAR, needs=("7zz",), intended=(intended.TOP,)),
    # A directory is no archive: its copy is compared with that of cp -a.
    Format("directory", "", COPY, None, "cp -a $a/. .", intended=(intended.SET_ID,)),
]


def pack(chosen, random, tree, archive):
    """Makes archive.SUFFIX of the tree, for tar in any compression; returns its path, and the facts of its contents."""
    path = f"{archive}.{chosen.suffix}"
    if callable(chosen.pack):
        packed = chosen.pack(random, path)
    else:
        packed = facts.of_tree(tree)
        shell(chosen.pack, tree, path)
    if chosen.suffix != "tar":
        return path, packed
    return compress(random, path), packed


def compress(random, path):
    suffix = random.choice(list(COMPRESSORS))
    if suffix == "":
        return path
    # Now and then in two members, frames or streams, which make one archive.
    cut = random.choice([None, random.randint(1, os.path.getsize(path))])
    if suffix == ".lzma":
        cut = None  # xz reads one stream of it
    command = COMPRESSORS[suffix]
    if cut is None:
        shell(f"{command} -c <$a >$a{suffix}", "/", path)
    else:
        shell(f"{{ head -c {cut} $a | {command} -c; tail -c +{cut + 1} $a | {command} -c; }} >$a{suffix}", "/", path)
    return path + suffix


def shell(command, directory, archive):
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=directory, env={**os.environ, "a": archive},
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot make the archive: {command}: {done.stderr.decode(errors='replace')}")
