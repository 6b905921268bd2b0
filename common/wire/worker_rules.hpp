// The settings of a site that its workers go by. They stand in the daemon's settings and in a
// worker's order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/enum_range.hpp"

namespace nodestage {

enum class OnFailure { fail, proceed };
constexpr EnumRange<OnFailure> range_of(OnFailure) { return {OnFailure::fail, OnFailure::proceed}; }

// What a worker that stages needs of its sandbox.
enum class SandboxNeed {
  available,  // as much as the kernel has
  required,   // all of it, or nothing is staged
};
constexpr EnumRange<SandboxNeed> range_of(SandboxNeed) {
  return {SandboxNeed::available, SandboxNeed::required};
}

// What the site lets --stage-venv run while it stages.
enum class VenvBuild {
  wheels_only,  // virtual environments are built from wheels alone
  off,          // nothing is built
  any,          // also from source distributions
};
constexpr EnumRange<VenvBuild> range_of(VenvBuild) {
  return {VenvBuild::wheels_only, VenvBuild::any};
}
enum class VenvInstaller { pip, uv };
constexpr EnumRange<VenvInstaller> range_of(VenvInstaller) {
  return {VenvInstaller::pip, VenvInstaller::uv};
}

// What an archive may contain, by the site's settings.
enum class Escaping { fail, skip };  // for an entry that would leave its destination
enum class Special { skip, keep };   // for FIFOs, and for set-id and sticky bits
constexpr EnumRange<Escaping> range_of(Escaping) { return {Escaping::fail, Escaping::skip}; }
constexpr EnumRange<Special> range_of(Special) { return {Special::skip, Special::keep}; }
struct ExtractRules {
  Escaping escaping = Escaping::fail;
  Special special = Special::skip;
  std::uint64_t max_entries = 1'000'000'000;
  std::uint64_t max_ratio = 50'000;  // bytes written per byte of the archive
  bool xattrs = false;               // also in copies of directories

  bool operator==(const ExtractRules&) const = default;
};

struct VenvRules {
  VenvBuild build = VenvBuild::wheels_only;
  VenvInstaller installer = VenvInstaller::pip;
  std::string uv = "/usr/local/bin/uv";  // the program's path
  std::vector<std::string> find_links;   // directories of wheels
  std::string module_init;               // the script that defines `module`; empty: the usual paths
  std::uint64_t limit_s = 3600;

  bool operator==(const VenvRules&) const = default;
};

struct PortRange {
  std::uint16_t first = 6826;  // 0: any
  std::uint16_t last = 6925;

  bool operator==(const PortRange&) const = default;
};

// For items with in=memory. The worker is in the memory cgroup of the job, or of `nodestage run`'s
// caller, so what it writes there counts as theirs.
struct MemoryRules {
  std::string directory;             // k_worker_memory_fd's path; empty: there is none
  std::string refusal;               // why there is none
  std::uint64_t share_percent = 75;  // of the memory that the items may take together
  std::uint64_t most_bytes = 0;      // of the job on this node, by Slurm; 0: not known

  bool operator==(const MemoryRules&) const = default;
};

// How a job's large sources get from node to node.
struct RelayRules {
  std::uint64_t least_bytes = 64ULL << 20;  // smaller sources are not relayed
  std::uint64_t window_bytes = 4ULL << 30;  // of the spool; 0: nothing is relayed
  PortRange ports;                          // to listen on
  std::uint64_t silence_wait_s = 10;        // after which a process that says nothing is given up
  std::uint64_t patience_s = 10;            // for which a reader may keep others waiting, in all
  std::uint64_t answer_wait_s = 5;          // after which the relay worker reads without a plan
  // Types, as in mountinfo; "fuse": "fuse.*", too.
  std::vector<std::string> file_systems = {
      "nfs",  "nfs4",  "lustre", "gpfs",   "beegfs",         "ceph",          "cifs",
      "smb3", "pvfs2", "panfs",  "wekafs", "fuse.ceph-fuse", "fuse.glusterfs"};
  // What all nodes of a job may read together, bytes per second, where each reads a source for
  // itself; 0: all are relayed.
  std::uint64_t site_rate_bytes = 4ULL << 30;

  bool operator==(const RelayRules&) const = default;
};

}  // namespace nodestage
