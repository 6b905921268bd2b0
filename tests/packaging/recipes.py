#!/usr/bin/python3
"""Whether the recipes for Spack and EasyBuild fit this source tree: the version, each library that CMake asks for, in a
version that is new enough, and none that it does not ask for, and each option of CMake that they set. Neither tool is
needed: both recipes are Python, and are executed here with stand-ins for the names that the tool gives them. Prints what
is wrong, and exits with 1 if anything is.
"""
import glob
import os
import re
import sys
import types

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPACK = "packaging/spack/spack_repo/nodestage/packages/nodestage/package.py"
(EASYBUILD,) = glob.glob(f"{TOP}/packaging/easybuild/*.eb")
# What CMake looks for: the package of Spack, and that of EasyBuild or of the operating system.
LIBRARIES = {
    "asio": ("asio", "asio-devel"), "bzip2": ("bzip2", "bzip2"), "cli11": ("cli11", "CLI11"),
    "libarchive": ("libarchive", "libarchive"), "libcap": ("libcap", "libcap-devel"), "libisal": ("isa-l", "ISA-L"),
    "liblz4": ("lz4", "lz4"), "liblzma": ("xz", "XZ"), "libseccomp": ("libseccomp", "libseccomp-devel"),
    "libsystemd": ("systemd", "systemd-devel"), "libzstd": ("zstd", "zstd"), "munge": ("munge", "munge-devel"),
    "nlohmann_json": ("nlohmann-json", "nlohmann_json"), "openssl": ("openssl", "OpenSSL"), "slurm": ("slurm", "slurm-devel"),
    "spdlog": ("spdlog", "spdlog"), "tomlplusplus": ("tomlplusplus", "tomlplusplus"),
    "zlib": ("zlib-api", None),  # in place of ISA-L
}
TOOLS = {"cmake", "cxx", "pkgconfig", "binutils", "CMake", "pkgconf"}
# Not of what is installed, or of every system.
LEFT_OUT = {"pkgconfig", "threads", "doctest", "fuse3"}
faults = []


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def cmake_sources():
    for directory, below, names in os.walk(TOP):
        below[:] = [name for name in below if name not in {"build", ".git", "tests"}]
        for name in names:
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                yield read(os.path.join(directory, name))


CMAKE = "\n".join(cmake_sources())
VERSION = re.search(r"project\(nodestage VERSION ([\d.]+)", CMAKE)[1]


def libraries_of_cmake():
    """Of each library the oldest version that CMake takes, or None."""
    found = {"slurm": None} if "slurm/spank.h" in CMAKE else {}
    call = r"^\s*(?:find_package|pkg_check_modules|nodestage_module|nodestage_package|nodestage_header|find_path)\((\w+)([^)]*)"
    for name, rest in re.findall(call, CMAKE, re.MULTILINE):
        name = name.lower().removesuffix("_include")
        if name in LEFT_OUT or name == "slurm_include_dir":
            continue
        least = re.search(r">=([\d.]+)", rest) or re.match(r" ([\d.]+)", rest)
        found[name] = least[1] if least else found.get(name)
    return found


def knows_option(name):
    return name.startswith("CMAKE_") or re.search(rf"\b(?:option|set|find_path)\({name}\b", CMAKE)


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(f"{self}/{name}")


class Spec(dict):
    def __missing__(self, name):
        return types.SimpleNamespace(prefix=Prefix(f"/{name}"))

    def satisfies(self, _):
        return True


class Recipe:
    """What a Spack recipe inherits, as far as it is used."""
    prefix = Prefix("/prefix")
    spec = Spec()

    def define(self, name, value):
        return f"-D{name}={value}"

    def define_from_variant(self, name, variant):
        if variant not in variants:
            faults.append(f"{SPACK}: {name} is set from the variant '{variant}', which there is none of")
        return f"-D{name}=ON"


def examine_spack():
    depends, versions = {}, []
    names = {"CMakePackage": Recipe, "license": lambda *_: None, "conflicts": lambda *_, **__: None,
             "version": lambda number, **_: versions.append(number), "variant": lambda name, **_: variants.append(name),
             "depends_on": lambda spec, **_: depends.update([(spec.rstrip(":") + "@").split("@")[:2]])}
    source = re.sub(r"^from spack.*$", "", read(SPACK), flags=re.MULTILINE)
    exec(compile(source, SPACK, "exec"), names)
    examine(SPACK, versions, depends, names["Nodestage"]().cmake_args(), 0)


def examine_easybuild():
    path = os.path.relpath(EASYBUILD, TOP)
    names = {"SOURCE_TAR_GZ": "", "SHLIB_EXT": "so", "SYSTEM": {}}
    exec(compile(read(path), path, "exec"), names)
    toolchain = names["toolchain"]
    wanted = f"{names['name']}-{names['version']}-{toolchain['name']}-{toolchain['version']}.eb"
    if os.path.basename(path) != wanted:
        faults.append(f"{path}: EasyBuild looks for it by the name {wanted}")
    depends = {entry[0]: entry[1] for entry in names["builddependencies"] + names["dependencies"]}
    depends.update((entry[0], "") for entry in names["osdependencies"])
    examine(path, [names["version"]], depends, names["configopts"].split(), 1)


def examine(path, versions, depends, options, column):
    if versions != [VERSION]:
        faults.append(f"{path}: is for {versions}, and this tree is {VERSION}")
    wanted = libraries_of_cmake()
    for name in wanted.keys() - LIBRARIES.keys():
        faults.append(f"CMake looks for {name}, which tests/packaging/recipes.py does not know: add it there and to the recipes")
    known = {LIBRARIES[name][column]: least for name, least in wanted.items() if LIBRARIES.get(name, (None, None))[column]}
    for name in known.keys() - depends.keys():
        faults.append(f"{path}: does not depend on {name}, which CMake looks for")
    for name in depends.keys() - known.keys() - TOOLS:
        faults.append(f"{path}: depends on {name}, which CMake does not look for")
    for name, least in known.items():
        if least and depends.get(name) and numbers(depends[name]) < numbers(least) and depends[name] != least.split(".")[0]:
            faults.append(f"{path}: {name} {depends[name]} is older than what CMake takes, {least}")
    for option in options:
        name = re.match(r"-D(\w+)=", option)[1]
        if not knows_option(name):
            faults.append(f"{path}: sets {name}, which CMake does not know")


variants = []
examine_spack()
examine_easybuild()
print("\n".join(faults))
sys.exit(1 if faults else 0)
