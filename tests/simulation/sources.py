"""Makes what a user's jobs stage below ~/in, and prints what each source is when it is staged, as JSON.

A program for the user, on the controller: `python3 sources.py SEED`. The same seed makes the same contents.
"""
import hashlib
import json
import os
import random
import subprocess
import sys

FORMATS = {"tar": "tar cf {to} -C {tree} .", "tar.gz": "tar czf {to} -C {tree} .", "tar.zst": "tar --zstd -cf {to} -C {tree} .",
           "tar.xz": "tar cJf {to} -C {tree} .", "zip": "cd {tree} && zip -qr {to} .", "7z": "cd {tree} && 7zz a -bso0 -bsp0 {to} ."}


def sum_of(top, wanted=lambda name: True):
    """What the shell function sum_of of a job's script prints for the files below `top`."""
    names = sorted(os.path.relpath(os.path.join(place, name), top) for place, _, files in os.walk(top) for name in files)
    lines = b""
    for name in filter(wanted, names):
        with open(os.path.join(top, name), "rb") as file:
            lines += f"{hashlib.sha256(file.read()).hexdigest()}  ./{name}\n".encode()
    return hashlib.sha256(lines).hexdigest()


def fill(path, pick, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(pick.randbytes(size))


def shell(text, **names):
    subprocess.run(["bash", "-ec", text.format(**names)], check=True)


def make(pick):
    for place, count in (("a", 7), ("b", 5), ("b/c", 3)):
        for number in range(count):
            fill(f"tree/{place}/f{number}", pick, pick.randrange(1, 20000))
    fill("large/block", pick, 6 << 20)
    fill("large/small", pick, 1000)
    for age, version in enumerate(("v3", "v2", "v1")):
        fill(f"versions/{version}/point", pick, 3000)
        os.utime(f"versions/{version}", (1700000000 - age * 1000,) * 2)
    here = os.getcwd()
    for suffix, how in FORMATS.items():
        shell(how, to=f"{here}/good.{suffix}", tree="tree")
    shell("tar cf {to} -C {tree} .", to=f"{here}/large.tar", tree="large")
    for suffix in ("tar.gz", "tar.zst", "tar.xz"):
        size = os.path.getsize(f"good.{suffix}")
        shell(f"head -c {size * 6 // 10} good.{suffix} >cut.{suffix}")
    shell("echo 'This is a text.' >text.tar.gz")
    shell("python3 -m venv --without-pip env; cd env/lib/python3*/site-packages; echo 'WORD = \"found\"' >marker.py")
    shell("tar czf env.tar.gz -C env .")


def main():
    for name in ("out", "jobs", "closed"):
        subprocess.run(["rm", "-rf", name, "in"], check=True)
        os.makedirs(name)
    os.makedirs("in")
    os.chdir("in")
    make(random.Random(sys.argv[1]))
    print(json.dumps({
        "tree": sum_of("tree"), "a": sum_of("tree", lambda name: name.startswith("a/")),
        "not a": sum_of("tree", lambda name: not name.startswith("a/")), "large": sum_of("large"),
        "v3": sum_of("versions", lambda name: name.startswith("v3/")),
        "formats": list(FORMATS)}))


main()
