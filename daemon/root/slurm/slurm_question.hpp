// SlurmQuestion: asks Slurm whether a run of a job still is, by scontrol (scontrol.hpp).
//
// As root, since with PrivateData=jobs Slurm tells other users of a running job what it tells of
// one that never was.
#pragma once

#include <functional>
#include <string_view>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/slurm/scontrol.hpp"

namespace nodestage {

enum class SlurmAnswer {
  gone,     // Slurm does not know this run any more, or knows that it has ended
  here,     // it waits, runs or is about to end: an epilog is still to come
  unclear,  // an answer that says neither: a name with a newline in it, say
  none,     // no answer: the controller is away, say; nor would it know of other jobs
};

// What `scontrol --oneliner show job JOB` has printed about `run`. Names in it are the user's, who
// can deceive us about his own job only.
SlurmAnswer read_answer(const JobKey& run, std::string_view output);

class SlurmQuestion {
 public:
  using OnAnswer = std::function<void(SlurmAnswer)>;

  SlurmQuestion(Loop& loop, const Config& config) : scontrol_(loop, config) {}

  [[nodiscard]] bool busy() const { return scontrol_.busy(); }
  // When not busy. The answer comes from the loop.
  Status ask(const JobKey& run, OnAnswer on_answer);

 private:
  Scontrol scontrol_;
};

}  // namespace nodestage
