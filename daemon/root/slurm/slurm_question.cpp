#include "daemon/root/slurm/slurm_question.hpp"

#include <algorithm>
#include <array>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::array<std::string_view, 9> k_ended = {"COMPLETED", "CANCELLED", "FAILED",
                                                     "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                                     "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY"};

}  // namespace

// Returns the line about this job. For an array's id, Slurm prints those of its other tasks, too.
std::string_view line_about(std::uint32_t job, std::string_view output) {
  const std::string begin = "JobId=" + std::to_string(job) + " ";
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (line.starts_with(begin)) return line;
    output.remove_prefix(std::min(line.size() + 1, output.size()));
  }
  return {};
}

std::string_view field_of(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  return line.substr(0, line.find(' '));
}

SlurmAnswer read_answer(const JobKey& run, std::string_view output) {
  const std::string_view line = line_about(run.job, output);
  if (line.empty()) {
    if (output.find("JobId=") != std::string_view::npos) return SlurmAnswer::unclear;
    const bool unknown = output.find("Invalid job id specified") != std::string_view::npos;
    return unknown ? SlurmAnswer::gone : SlurmAnswer::none;
  }
  const std::string_view state = field_of(line, " JobState=");
  std::string_view count = field_of(line, " Restarts=");
  if (state.empty() || count.empty()) return SlurmAnswer::unclear;
  // The count may already be that of the next run while epilogs of this one are still due.
  if (state == "COMPLETING") return SlurmAnswer::here;
  if (std::find(k_ended.begin(), k_ended.end(), state) != k_ended.end()) return SlurmAnswer::gone;
  const auto restart = take_number<std::uint32_t>(count);
  if (!restart) return SlurmAnswer::unclear;
  return *restart > run.restart ? SlurmAnswer::gone : SlurmAnswer::here;
}

Status SlurmQuestion::ask(const JobKey& run, OnAnswer on_answer) {
  return scontrol_.run({"--oneliner", "show", "job", std::to_string(run.job)},
                       [run, on_answer = std::move(on_answer)](const Scontrol::Output& output) {
                         const SlurmAnswer answer = read_answer(run, output.text);
                         const bool too_long = output.succeeded && answer == SlurmAnswer::none;
                         on_answer(too_long ? SlurmAnswer::unclear : answer);
                       });
}

}  // namespace nodestage
