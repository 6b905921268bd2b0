// Slurm's commands, run for what they print.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct Printed {
  std::string text;
  int code = 0;  // the exit code; 128 + n when signal n has ended it
};

enum class Complaints { shown, hidden };  // on stderr

// Without stdin, and as from outside of any job: of the variables SLURM_* only those by which users
// set their defaults stay. One that takes longer than `limit` is ended. The fault: it cannot be
// run, or took too long.
Result<Printed> run_slurm_command(const std::vector<std::string>& words, Complaints complaints,
                                  std::chrono::seconds limit);

}  // namespace nodestage
