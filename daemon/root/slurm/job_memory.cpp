#include "daemon/root/slurm/job_memory.hpp"

#include <charconv>
#include <limits>
#include <string>

#include "daemon/root/slurm/slurm_question.hpp"

namespace nodestage {
namespace {

constexpr double k_mebibyte = 1 << 20;

// "200M", "1.50G"; MiB without a unit.
std::uint64_t bytes_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return 0;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view k_units = "MGTP";
  double times = unit.starts_with('K') ? k_mebibyte / 1024 : k_mebibyte;
  for (const char known : k_units) {
    if (unit.starts_with(known)) break;
    if (!unit.empty() && k_units.find(unit.front()) != std::string_view::npos) times *= 1024;
  }
  const double bytes = value * times;
  return bytes < 1e18 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace

std::uint64_t memory_of_job(std::uint32_t job, std::uint32_t cpus, std::string_view output) {
  const std::string_view line = line_about(job, output);
  if (const std::uint64_t node = bytes_in(field_of(line, " MinMemoryNode=")); node != 0)
    return node;
  return bytes_in(field_of(line, " MinMemoryCPU=")) * cpus;
}

void JobMemory::ask(std::uint32_t job, std::uint32_t cpus, OnAnswer on_answer) {
  waiting_.push_back({job, cpus, std::move(on_answer)});
  ask_next();
}

void JobMemory::ask_next() {
  if (waiting_.empty() || scontrol_.busy()) return;
  const Question question = std::move(waiting_.front());
  waiting_.pop_front();
  const Status asked =
      scontrol_.run({"--oneliner", "show", "job", std::to_string(question.job)},
                    [this, question](const Scontrol::Output& output) {
                      question.on_answer(memory_of_job(question.job, question.cpus, output.text));
                      ask_next();
                    });
  if (asked) return;
  question.on_answer(0);
  ask_next();
}

}  // namespace nodestage
