"""nodestage for Spack 1.0 or later. README.md has what a site must do as root besides."""
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Nodestage(CMakePackage):
    """nodestage puts the data and the Python environment of a Slurm job on the local disk of every
    allocated node before the job's first line runs, and copies the results back however it ends."""

    license("Apache-2.0")

    # Put the source archive into the directory in which you run Spack, or into a mirror.
    manual_download = True
    url = f"file://{os.getcwd()}/nodestage-0.1.0.tar.gz"

    version("0.1.0")

    variant("plugin", default=True, description="Build the SPANK plugin, for the Slurm that is given")
    variant("systemd", default=True, description="Report to systemd, and log to its journal")
    variant("munge", default=True, description="Let the nodes of a job report to each other")
    variant("isal", default=True, description="Inflate gzip and zip with ISA-L, which is faster than zlib")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("asio@1.16.1:", type="build")
    depends_on("cli11@2.1.2:", type="build")
    depends_on("nlohmann-json@3.10.5:", type="build")
    depends_on("tomlplusplus@3.3.0:", type="build")
    depends_on("spdlog@1.9.2:")

    depends_on("bzip2@1.0.8:")
    depends_on("isa-l@2.30.0:", when="+isal")
    depends_on("libarchive@3.6:")
    depends_on("libcap@2.44:")
    depends_on("libseccomp@2.5.2:")
    depends_on("lz4@1.9.3:")
    depends_on("munge@0.5.13:", when="+munge")
    depends_on("openssl@3.0:")
    depends_on("systemd@249:", when="+systemd")
    depends_on("xz@5.2.5:")
    depends_on("zlib-api", when="~isal")
    depends_on("zstd@1.4.8:")
    # Only its headers are used. It must be the release that the cluster runs, so use an external.
    depends_on("slurm", type="build", when="+plugin")

    conflicts("platform=darwin", msg="nodestage is for Linux")
    conflicts("platform=windows", msg="nodestage is for Linux")

    def cmake_args(self):
        args = [
            self.define_from_variant("NODESTAGE_PLUGIN", "plugin"),
            self.define_from_variant("NODESTAGE_SYSTEMD", "systemd"),
            self.define_from_variant("NODESTAGE_MUNGE", "munge"),
            self.define_from_variant("NODESTAGE_ISAL", "isal"),
            self.define("NODESTAGE_TESTS", False),
            self.define("NODESTAGE_SYSTEMD_UNIT_DIR", self.prefix.lib.systemd.system),
        ]
        if self.spec.satisfies("+plugin"):
            args.append(self.define("SLURM_INCLUDE_DIR", self.spec["slurm"].prefix.include))
            args.append(self.define("SLURM_PLUGIN_DIR", "lib/slurm"))
        return args
