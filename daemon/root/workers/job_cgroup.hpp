// The memory cgroup that Slurm has made for a job on this node.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace nodestage {

// What is known of a job's cgroup by its path:
//   version 1:  /slurm/uid_UID/job_JOB/step_STEP[/task_N]   (slurm_NODE with several slurmd)
//   version 2:  /system.slice/[NODE_]slurmstepd.scope/job_JOB/step_STEP/user/task_N
// In version 2, only cgroups without children can have processes: those of tasks.
enum class CgroupVersion { one, two };

// The length of the part of `cgroup` that ends in the job's own cgroup, if it is one of a step of
// that job in which a process of ours may be; otherwise 0.
std::size_t job_part(std::string_view cgroup, CgroupVersion version, std::uint32_t job,
                     std::uint32_t uid);

struct JobOfUser {
  std::uint32_t job = 0;
  std::uint32_t uid = 0;
  auto operator<=>(const JobOfUser&) const = default;
};
using JobCgroups = std::map<JobOfUser, std::string>;

// The directory of a cgroup in which a process of each job is now, of the step that lasts longest:
// the external step, else the batch step, else any. A job is left out if it has none, since no step
// of it has started, or Slurm makes no cgroups. A cgroup that a user has made is none: the job's
// own is root's. Reads one file of each process of the node, whatever the number of jobs. `proc` is
// /proc, except in tests; `owner` is root.
JobCgroups find_job_cgroups(const std::set<JobOfUser>& jobs, const std::string& proc = "/proc",
                            std::uint32_t owner = 0);

// Whether that is a cgroup of version 2: what is in it is one of the step's processes.
bool is_of_version_two(const std::string& directory);

// Moves the calling process (a forked child, still root) into it. A fault is in errno: ENOENT and
// ENODEV if the step has ended.
bool enter_job_cgroup(const std::string& directory);

// Removes that cgroup of a job of which nothing runs any more, and those around it up to the job's
// own: Slurm could not, while a process of ours was in it. One with processes stays.
void remove_job_cgroup(std::string directory);

// How many processes the kernel has killed there because of a memory limit.
std::uint64_t out_of_memory_kills(const std::string& directory);

}  // namespace nodestage
