#include "daemon/root/workers/job_cgroup.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "common/os/cgroup_paths.hpp"
#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_file_bytes = std::size_t{1} << 16;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // the '/'
    parts.push_back(path.substr(0, path.find('/')));
    path.remove_prefix(parts.back().size());
  }
  return parts;
}

// Users have cgroups of their own (systemd), below which they can make some of any name.
bool belongs_to(const std::string& directory, std::uint32_t owner) {
  struct stat info {};
  return ::lstat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == owner;
}

// What joins another step's than these would be killed at the end of that step: on version 2, where
// a process has one cgroup, it is one of the step's (on version 1, its memory alone is).
int rank_of(std::string_view cgroup, CgroupVersion version) {
  if (cgroup.find("/step_extern") != std::string_view::npos) return 3;
  if (cgroup.find("/step_batch") != std::string_view::npos) return 2;
  return version == CgroupVersion::one ? 1 : 0;
}

}  // namespace

std::size_t job_part(std::string_view cgroup, CgroupVersion version, std::uint32_t job,
                     std::uint32_t uid) {
  if (!cgroup.starts_with('/')) return 0;
  const auto parts = parts_of(cgroup);
  const std::string own = "job_" + std::to_string(job);
  if (cgroup.find("/" + own + "/") == std::string_view::npos) return 0;  // nearly all
  const std::string around = "uid_" + std::to_string(uid);
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    if (parts[i] != own || !parts[i + 1].starts_with("step_")) continue;
    if (version == CgroupVersion::one
            ? i < 2 || parts[i - 1] != around || !parts[i - 2].starts_with("slurm")
            : !parts[i - 1].ends_with("slurmstepd.scope") || i + 2 >= parts.size() ||
                  parts[i + 2] != "user")
      continue;
    return static_cast<std::size_t>(parts[i].data() + parts[i].size() - cgroup.data());
  }
  return 0;
}

JobCgroups find_job_cgroups(const std::set<JobOfUser>& jobs, const std::string& proc,
                            std::uint32_t owner) {
  JobCgroups best;
  const auto mounts = cgroup_mounts(proc);
  if (!mounts || jobs.empty()) return best;
  const std::string controller = mounts->contains("memory") ? "memory" : "";
  const auto mount = mounts->find(controller);
  if (mount == mounts->end()) return best;
  const CgroupVersion version = controller.empty() ? CgroupVersion::two : CgroupVersion::one;
  std::map<JobOfUser, int> ranks;
  const auto take = [&](const JobOfUser& job, const std::string& cgroup) {
    const int rank = rank_of(cgroup, version);
    if (rank <= ranks[job]) return;
    const std::size_t own = job_part(cgroup, version, job.job, job.uid);
    const std::string directory = own == 0 ? "" : directory_of(mount->second, cgroup);
    if (directory.empty() ||
        !belongs_to(directory.substr(0, directory.size() - (cgroup.size() - own)), owner))
      return;
    best[job] = directory;
    ranks[job] = rank;
  };
  auto processes = DirectoryStream::at(AT_FDCWD, proc);
  while (const auto name = processes.next()) {
    if (name->front() < '1' || name->front() > '9') continue;
    const auto text =
        read_file(AT_FDCWD, proc + "/" + std::string(*name) + "/cgroup", k_max_file_bytes);
    if (!text || text->find("/job_") == std::string::npos) continue;
    const auto places = cgroups_in(*text);
    const auto place = places.find(controller);
    if (place == places.end()) continue;
    for (const JobOfUser& job : jobs) take(job, place->second);
  }
  return best;
}

bool is_of_version_two(const std::string& directory) {
  struct stat info {};
  return !directory.empty() && ::stat((directory + "/cgroup.controllers").c_str(), &info) == 0;
}

bool enter_job_cgroup(const std::string& directory) {
  const auto enter = [&directory]() -> Status {
    TRY_ASSIGN(const Fd file, open_at(AT_FDCWD, directory + "/cgroup.procs", O_WRONLY));
    return write_all(file.get(), std::string_view("0"));
  };
  const Status entered = enter();
  if (!entered) errno = entered.error().code;
  return static_cast<bool>(entered);
}

void remove_job_cgroup(std::string directory) {
  while (directory.find("/job_") != std::string::npos) {
    if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) return;
    directory.erase(directory.rfind('/'));
  }
}

std::uint64_t out_of_memory_kills(const std::string& directory) {
  static constexpr std::string_view k_count = "oom_kill ";
  for (const char* file : {"/memory.events", "/memory.oom_control"}) {
    const auto text = read_file(AT_FDCWD, directory + file, k_max_file_bytes);
    const std::size_t at = text ? text->find(k_count) : std::string::npos;
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(*text).substr(at + k_count.size());
    return take_number<std::uint64_t>(rest).value_or(0);
  }
  return 0;
}

}  // namespace nodestage
