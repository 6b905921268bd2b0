// What is mounted where: the mount that an open file is on, all mounts, and the cgroups of
// processes as directories. Formats: proc(5) for mountinfo, cgroups(7).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// The number of the mount that an open file is on, as in /proc/self/mountinfo; "" if unknown. `fd`
// may be O_PATH.
std::string mount_of(int fd);

// Returns whether the file system is mounted so that no program on it can be started, and no
// library loaded (mount(8), noexec). `fd` may be O_PATH.
bool is_noexec(int fd);

// Returns the text of /proc/self/mountinfo (proc_pid_mountinfo(5)). `proc` is /proc, except in
// tests, as below.
Result<std::string> read_mountinfo(const std::string& proc = "/proc");

// Views of the line that it was read from.
struct Mount {
  std::string_view number;
  std::string_view disk;     // of the file system: "8:1"
  std::string_view root;     // which directory of the file system is mounted, like `point`
  std::string_view point;    // where it is mounted; blanks and the like are octal there, as in \040
  std::string_view type;     // of the file system: "nfs4", "fuse.sshfs"
  std::string_view options;  // of the file system: "rw,vers=4.2"
  std::string_view device;   // or what else is mounted: "/dev/sda1", "server:/export"
};

// Returns a path of mountinfo in plain bytes.
std::string unescaped(std::string_view text);

// Returns what a line of mountinfo says.
std::optional<Mount> mount_in(std::string_view line);
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view number);

// Takes what is before the next `end`, and that with it.
std::string_view take_field(std::string_view& text, char end);

// What the names of the cgroups of nodestage's workers begin with.
inline constexpr std::string_view k_worker_cgroup = "nodestage-worker-";
// And of Slurm's cgroups of jobs; the rest is the job's number.
inline constexpr std::string_view k_job_cgroup = "job_";

// A hierarchy: where it is mounted, and which of its cgroups is mounted there.
struct CgroupMount {
  std::string point;
  std::string root;
};

// Controller ("" for version 2) → its hierarchy.
Result<std::map<std::string, CgroupMount>> cgroup_mounts(const std::string& proc);

// Controller → the process's cgroup in its hierarchy. `text` is the process's /proc/PID/cgroup.
std::map<std::string, std::string> cgroups_in(const std::string& text);

// The directory of a cgroup, or "" if it lies outside of what is mounted.
std::string directory_of(const CgroupMount& mount, const std::string& cgroup);

// The name of the outermost cgroup around a process that begins so, if root has made it; else "".
// `mounts` is as from cgroup_mounts(), `text` is the process's /proc/PID/cgroup.
std::string cgroup_of_root(const std::map<std::string, CgroupMount>& mounts,
                           const std::string& text, std::string_view begin);

// The smallest limit of the calling process's memory cgroup and of those around it; the node's
// memory if none is smaller. In bytes.
std::uint64_t memory_limit(const std::string& proc = "/proc");

}  // namespace nodestage
