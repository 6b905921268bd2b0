#include "daemon/root/slurm/slurm_steps.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <charconv>
#include <memory>
#include <string>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_title = "slurmstepd: [";

// Slurm's step manager takes on its user's rights at times, but its real uid stays root.
bool is_stepd_of_root(const std::string& process) {
  const auto name = read_file(AT_FDCWD, process + "/comm", 64);
  if (!name || *name != "slurmstepd\n") return false;
  const auto status = read_file(AT_FDCWD, process + "/status", 16 * 1024);
  return status && status->find("\nUid:\t0\t") != std::string::npos;
}

}  // namespace

std::optional<std::uint32_t> job_of_step(std::string_view command_line) {
  if (!command_line.starts_with(k_title)) return {};
  command_line.remove_prefix(k_title.size());
  std::uint32_t job = 0;
  const char* end = command_line.data() + command_line.size();
  const auto [rest, error] = std::from_chars(command_line.data(), end, job);
  if (error != std::errc() || rest == end || *rest != '.') return {};
  return job;
}

std::set<std::uint32_t> jobs_with_steps() {
  std::set<std::uint32_t> jobs;
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), ::closedir);
  if (!processes) return jobs;
  while (const dirent* entry = ::readdir(processes.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const std::string process = std::string("/proc/") + entry->d_name;
    if (!is_stepd_of_root(process)) continue;
    const auto line = read_file(AT_FDCWD, process + "/cmdline", 4096);
    if (!line) continue;
    if (const auto job = job_of_step(*line)) jobs.insert(*job);
  }
  return jobs;
}

}  // namespace nodestage
