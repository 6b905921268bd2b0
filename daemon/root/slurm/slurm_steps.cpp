#include "daemon/root/slurm/slurm_steps.hpp"

#include <fcntl.h>

#include <string>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/text/parsing.hpp"

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
  const auto job = take_number<std::uint32_t>(command_line);
  return command_line.starts_with('.') ? job : std::nullopt;
}

std::set<std::uint32_t> jobs_with_steps() {
  std::set<std::uint32_t> jobs;
  auto processes = DirectoryStream::at(AT_FDCWD, "/proc");
  while (const auto name = processes.next()) {
    if (name->front() < '1' || name->front() > '9') continue;
    const std::string process = std::string("/proc/").append(*name);
    if (!is_stepd_of_root(process)) continue;
    const auto line = read_file(AT_FDCWD, process + "/cmdline", 4096);
    if (!line) continue;
    if (const auto job = job_of_step(*line)) jobs.insert(*job);
  }
  return jobs;
}

}  // namespace nodestage
