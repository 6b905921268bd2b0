// SlurmQuestion: asks Slurm whether a run of a job still is, with Slurm's own scontrol in a child.
//
// The child is uid 0 without any capability: with PrivateData=jobs Slurm tells other users of a
// running job what it tells of one that never was. Its time and its output are bounded, and the
// daemon never waits for it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/fd.hpp"
#include "daemon/root/areas.hpp"
#include "daemon/root/config.hpp"
#include "daemon/root/loop.hpp"

namespace nodestage {

enum class SlurmAnswer {
  gone,     // Slurm does not know this run any more, or knows that it has ended
  here,     // it waits, runs or is about to end: an epilog is still to come
  unclear,  // no answer, or one that says neither: the controller is away, say
};

// What `scontrol --oneliner show job JOB` has printed about `run`. Names in it are the user's, who
// can deceive us about his own job only.
SlurmAnswer read_answer(const JobKey& run, std::string_view output);

class SlurmQuestion {
 public:
  using OnAnswer = std::function<void(SlurmAnswer)>;

  SlurmQuestion(Loop& loop, const Config& config) : loop_(loop), config_(config) {}
  SlurmQuestion(const SlurmQuestion&) = delete;
  SlurmQuestion& operator=(const SlurmQuestion&) = delete;
  ~SlurmQuestion();

  [[nodiscard]] bool busy() const { return child_.has_value(); }
  // When not busy. The answer comes from the loop.
  Status ask(const JobKey& run, OnAnswer on_answer);

 private:
  struct Child {
    JobKey run;
    OnAnswer on_answer;
    pid_t pid = 0;
    Fd pid_fd;
    Fd output;
    std::string text;
    Loop::TimerId limit;
  };
  void read_output();
  void ended();
  void end_child();

  Loop& loop_;
  const Config& config_;
  std::optional<Child> child_;
};

}  // namespace nodestage
