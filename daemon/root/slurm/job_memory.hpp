// JobMemory: asks Slurm with scontrol how much memory a job may use on a node.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/slurm/scontrol.hpp"

namespace nodestage {

// Reads what `scontrol --oneliner show job JOB` printed: MinMemoryNode, or MinMemoryCPU for each of
// that many CPUs. In bytes; 0: it says neither, or the job has all memory of the node.
std::uint64_t memory_of_job(std::uint32_t job, std::uint32_t cpus, std::string_view output);

class JobMemory {
 public:
  using OnAnswer = std::function<void(std::uint64_t bytes)>;

  JobMemory(Loop& loop, const Config& config) : scontrol_(loop, config) {}

  // on_answer is called once, from the loop or from here; with 0 if Slurm does not answer.
  void ask(std::uint32_t job, std::uint32_t cpus, OnAnswer on_answer);

 private:
  struct Question {
    std::uint32_t job;
    std::uint32_t cpus;
    OnAnswer on_answer;
  };
  void ask_next();

  Scontrol scontrol_;
  std::deque<Question> waiting_;
};

}  // namespace nodestage
