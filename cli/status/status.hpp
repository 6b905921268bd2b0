// nodestage status [JOBID]
#pragma once

#include <string>
#include <vector>

namespace nodestage {

// nodestage wait [NAME...]
struct WaitArguments {
  std::string socket;
  std::vector<std::string> names;  // none: all datasets of the job
  bool quiet = false;
};

// Exit code: 0: the datasets are in place; 1: staging failed, or no answer; k_wrong_usage.
int wait_for_datasets(const WaitArguments& arguments);

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
