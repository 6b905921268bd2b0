// SlurmQuestion: asks Slurm with scontrol (scontrol.hpp) whether a run of a job still exists.
//
// It asks as root: with PrivateData=jobs, Slurm gives other users the same answer about a running
// job as about one that never existed.
#pragma once

#include <functional>
#include <string_view>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/slurm/scontrol.hpp"

namespace nodestage {

enum class SlurmAnswer {
  gone,     // Slurm does not know this run any more, or reports that it has ended
  here,     // it waits, runs, or is about to end: an epilog is still to come
  unclear,  // an answer that shows neither, for instance because of a newline in a name
  none,     // no answer, for instance from a controller that is down; the same for other jobs
};

// Reads what `scontrol --oneliner show job JOB` printed about `run`. Names in it come from users,
// who can only deceive the daemon about their own job.
SlurmAnswer read_answer(const JobKey& run, std::string_view output);

// The line about this job of what scontrol printed, and a field of it, named as " Restarts=".
std::string_view line_about(std::uint32_t job, std::string_view output);
std::string_view field_of(std::string_view line, std::string_view name);

class SlurmQuestion {
 public:
  using OnAnswer = std::function<void(SlurmAnswer)>;

  SlurmQuestion(Loop& loop, const Config& config) : scontrol_(loop, config) {}

  [[nodiscard]] bool busy() const { return scontrol_.busy(); }
  // Call it only when not busy. on_answer is called once, from the loop.
  Status ask(const JobKey& run, OnAnswer on_answer);

 private:
  Scontrol scontrol_;
};

}  // namespace nodestage
