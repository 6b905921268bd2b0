// nodestage status [JOBID]
#pragma once

#include <string>

namespace nodestage {

struct StatusArguments {
  std::string socket;
  std::string job;    // "12", "12_3", "12+1"; empty: all jobs that this node knows
  bool here = false;  // never ask Slurm
  bool json = false;
  bool watch = false;  // repeat until nothing changes any more
};

// Shows the caller's jobs (root: all jobs). Exit code: 0; 1: the named job, its staging or the
// delivery of its results has failed, or the daemon, a node or Slurm does not answer;
// k_wrong_usage; k_no_such_job: the job is not the caller's, or not known.
int show_status(const StatusArguments& arguments);

}  // namespace nodestage
