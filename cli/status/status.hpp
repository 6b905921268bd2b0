// nodestage status [JOBID]
#pragma once

#include <string>

namespace nodestage {

struct StatusArguments {
  std::string socket;
  std::string job;    // "12", "12_3", "12+1"; empty: all that this node knows
  bool here = false;  // never by Slurm
  bool json = false;
  bool watch = false;  // again and again, until nothing changes any more
};

// Of the caller's jobs (root: of all). The exit code: 0; 1 somebody who must know does not answer;
// k_wrong_usage; k_no_such_job: it is not the caller's, not known, or over.
int show_status(const StatusArguments& arguments);

}  // namespace nodestage
