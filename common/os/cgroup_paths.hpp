// The cgroups of processes, as directories. Formats: proc(5) for mountinfo, cgroups(7).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// What the names of the cgroups of nodestage's workers begin with.
inline constexpr std::string_view k_worker_cgroup = "nodestage-worker-";

// A hierarchy: where it is mounted, and which of its cgroups is mounted there.
struct CgroupMount {
  std::string point;
  std::string root;
};

// Controller ("" for version 2) → its hierarchy. `proc` is /proc, except in tests.
Result<std::map<std::string, CgroupMount>> cgroup_mounts(const std::string& proc);

// Controller → the process's cgroup in its hierarchy. `text` is the process's /proc/PID/cgroup.
std::map<std::string, std::string> cgroups_in(const std::string& text);

// The directory of a cgroup, or "" if it lies outside of what is mounted.
std::string directory_of(const CgroupMount& mount, const std::string& cgroup);

// The directory of the cgroup that a process's memory is charged to; "" if none is mounted.
// `text` is the process's /proc/PID/cgroup.
std::string memory_directory_of(const std::map<std::string, CgroupMount>& mounts,
                                const std::string& text);

// How much memory a process may use.

// The smallest limit of the calling process's memory cgroup and of those around it; the node's
// memory if none is smaller. In bytes. `proc` is /proc, except in tests.
std::uint64_t memory_limit(const std::string& proc = "/proc");

// The limit of one cgroup and of those around it, up to the mount point; ~0: none.
std::uint64_t memory_limit_of(std::string directory);

}  // namespace nodestage
