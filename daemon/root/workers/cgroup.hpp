// Cgroups: one cgroup per worker, below the one that the site gives to workers (with systemd, that
// of nodestage-workers.service) or below the daemon's own.
//
// Under systemd it must not be the daemon's own: processes below a service's cgroup keep systemd
// from starting the service again (status 219). Uses version 2 with delegated controllers, or
// version 1 (cpu, memory, pids, freezer), whichever the kernel and that cgroup offer. Limits that
// the host cannot enforce are left out, and missing() names them. Needs root or a delegated cgroup.
// Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/*.rst of the kernel; proc(5),
// cgroups(7).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct CgroupLimits {
  std::uint32_t cpus = 1;
  std::uint64_t memory_bytes = 0;  // 0: none
  std::uint64_t pids = 0;          // 0: none
  bool is_jobs_memory = false;     // the limit of memory is that of the job, not a setting
};

class Cgroups {
 public:
  // Prepares this process's own cgroup for workers and returns its identity: the text of
  // /proc/self/cgroup. With version 2, this process moves into a leaf `supervisor`, since a cgroup
  // that delegates controllers must not hold processes. `proc` is /proc, except in tests.
  static Result<std::string> hand_on(const std::string& proc = "/proc");
  // `cgroup` is what hand_on() returned, in this process or in another one that still runs.
  static Result<Cgroups> discover(const std::string& cgroup, const std::string& proc = "/proc");
  // Returns an object without cgroups, of which every call below does nothing.
  static Cgroups none() { return Cgroups(); }

  Status create(const std::string& name, const CgroupLimits& limits) const;
  // Moves the calling process (a forked child, still root) into `name`. Safe in the child of a
  // single-threaded parent.
  Status enter(const std::string& name) const;
  // Sends SIGKILL to all processes in `name`. Returns false if there is no such cgroup.
  [[nodiscard]] bool kill(const std::string& name) const;
  // Returns whether the kernel killed a process in `name` because of the memory limit.
  [[nodiscard]] bool ran_out_of_memory(const std::string& name) const;
  // Removes `name`. Returns false while a process is in it, true if it does not exist.
  [[nodiscard]] bool remove(const std::string& name) const;
  // Returns the names that exist, for cleaning up at the start.
  [[nodiscard]] std::set<std::string> list() const;

  [[nodiscard]] bool available() const { return !bases_.empty(); }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  // systemd: version 1 without a controller, by which systemd knows what belongs to a service and
  // exits with it.
  enum class Kind { unified, cpu, memory, pids, freezer, systemd };
  struct Base {
    Kind kind;
    std::string directory;  // the workers' cgroup in that hierarchy
  };
  [[nodiscard]] std::string path(const Base& base, const std::string& name) const;
  static Status set_limits(const std::string& directory, const CgroupLimits& limits);

  std::vector<Base> bases_;
  std::string missing_;
};

// The process of nodestage-workers.service: keeps the workers' cgroup for nodestaged.
//
// systemd removes the cgroup of a service without processes, and does not start a service whose
// cgroup has children with processes. So the workers' cgroup belongs to a service of its own with
// this one process, and the daemon can be stopped and started beside it.

// Prepares this process's own cgroup for workers (Cgroups::hand_on), writes its identity to `file`,
// notifies systemd, and waits for SIGTERM. Then removes `file`. Needs root or a delegated cgroup,
// and no capability.
Status keep_cgroup(const std::string& file);

// The memory cgroup that Slurm has made for a job on this node.

// What is known of a job's cgroup by its path:
//   version 1:  /slurm/uid_UID/job_JOB/step_STEP[/task_N]   (slurm_NODE with several slurmd)
//   version 2:  /system.slice/[NODE_]slurmstepd.scope/job_JOB/step_STEP/user/task_N
// In version 2, only cgroups without children can have processes: those of tasks.
enum class CgroupVersion { one, two };

struct JobOfUser {
  std::uint32_t job = 0;
  std::uint32_t uid = 0;
  auto operator<=>(const JobOfUser&) const = default;
};
using JobCgroups = std::map<JobOfUser, std::string>;

// The directory of a cgroup in which a process of each job is now, of the step that lasts longest:
// the external step, else the batch step, else any. A job is left out if it has none, since no step
// of it has started, or Slurm makes no cgroups. A cgroup that a user has made is none: the job's
// own is root's. Reads directories of cgroups: those at the top and of slices once, and those of
// each job, but nothing of other processes. `proc` is /proc, except in tests; `owner` is root.
JobCgroups find_job_cgroups(const std::set<JobOfUser>& jobs, const std::string& proc = "/proc",
                            std::uint32_t owner = 0);

// Whether that is a cgroup of version 2: what is in it is one of the step's processes.
bool is_of_version_two(const std::string& directory);

// Moves the calling process (a forked child, still root) into it. Fails with ENOENT or ENODEV if
// the step has ended.
Status enter_job_cgroup(const std::string& directory);

// Removes that cgroup of a job of which nothing runs any more, and those around it up to the job's
// own: Slurm could not, while a process of ours was in it. One with processes stays.
void remove_job_cgroup(std::string directory);

// How many processes the kernel has killed there because of a memory limit.
std::uint64_t out_of_memory_kills(const std::string& directory);

}  // namespace nodestage
