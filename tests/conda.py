"""Installs packages as conda does, by its documented formats: no registry of conda can be reached in the tests.

  conda.py PREFIX CACHE [LENGTH]     LENGTH: of the packages' placeholder

Files are linked from the package cache, unless they contain the prefix. Prefixes are replaced by conda's own rules:
in texts wherever they are; in binaries in strings that end in a NUL, padded with NULs at the string's end.
"""

import json
import os
import py_compile
import re
import shutil
import sys

prefix, cache = os.path.abspath(sys.argv[1]), sys.argv[2]
placeholder = "/opt/placehold".ljust(int(sys.argv[3]) if len(sys.argv) > 3 else 255, "_")
python = "python%d.%d" % sys.version_info[:2]
site = f"lib/{python}/site-packages"
P = placeholder
PACKAGES = {
    "base-1-0": {
        # In place of a Python of its own.
        f"bin/{python}": ("text", f'#!/bin/sh\nPYTHONPATH={P}/{site} exec /usr/bin/python3 "$@"\n'),
        "bin/prefix-config": ("text", f"#!{P}/bin/python\nprint('{P}/lib', '-isystem{P}/include')\n"),
        "lib/libbase.so": ("binary", f"\x7fELF\0\1{P}/lib:{P}/share\0\0-isystem{P}/include %s\0{P}\0end"),
        "lib/pkgconfig/base.pc": ("text", f"prefix={P}\nrpath=-Wl,-rpath,{P}/lib -isystem{P}/include\n"),
        "share/plain": (None, "no prefix: /opt/placehold\n"),
        "etc/conda/activate.d/base.sh": (None, 'export BASE_DATA="$CONDA_PREFIX/share"\n'),
    },
    # noarch: python
    "pure-1-py_0": {
        f"{site}/pure.py": (None, "from pure_config import PREFIX\n\n\ndef main():\n    print(PREFIX)\n"),
        f"{site}/pure_config.py": ("text", f"PREFIX = '{P}'\n"),
    },
}


def in_binary(data, old, new):
    def replace(match):
        padding = (len(old) - len(new)) * match.group().count(old)
        assert padding >= 0, "conda: the prefix is too long"
        return match.group().replace(old, new) + b"\0" * padding

    return re.sub(re.escape(old) + b"[^\0]*?\0", replace, data, flags=re.DOTALL)


def put(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    os.utime(path, (1700000000, 1700000000))


for package, files in PACKAGES.items():
    paths = []
    for name, (mode, text) in files.items():
        kept, path = f"{cache}/{package}/{name}", f"{prefix}/{name}"
        if not os.path.exists(kept):
            put(kept, text.encode("latin-1"), 0o755 if name.startswith("bin/") else 0o644)
        entry = {"_path": name, "path_type": "hardlink"}
        if mode is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.link(kept, path)
            except OSError:  # on another file system
                shutil.copy2(kept, path)
        else:
            with open(kept, "rb") as file:
                data = file.read()
            old, new = placeholder.encode(), prefix.encode()
            data = in_binary(data, old, new) if mode == "binary" else data.replace(old, new)
            put(path, data, os.stat(kept).st_mode & 0o777)
            entry.update(file_mode=mode, prefix_placeholder=placeholder)
        paths.append(entry)
        if name.endswith(".py"):
            py_compile.compile(path, dfile=path)
    if package == "pure-1-py_0":
        script = f"#!{prefix}/bin/python\nimport sys\nfrom pure import main\nsys.exit(main())\n"
        put(f"{prefix}/bin/pure", script.encode(), 0o755)
        paths.append({"_path": "bin/pure", "path_type": "unix_python_entry_point"})
    else:
        os.symlink(python, f"{prefix}/bin/python")
        paths.append({"_path": "bin/python", "path_type": "softlink"})
        os.link(f"{prefix}/share/plain", f"{prefix}/share/same")
        paths.append({"_path": "share/same", "path_type": "hardlink"})
    record = {"name": package.split("-")[0], "paths_data": {"paths": paths, "paths_version": 1}}
    put(f"{prefix}/conda-meta/{package}.json", json.dumps(record).encode())
put(f"{prefix}/conda-meta/history", f"# cmd: conda create --prefix {prefix}\n".encode())
put(f"{prefix}/conda-meta/state", json.dumps({"env_vars": {"BASE_MODE": "it's on"}}).encode())
