// Orphans: jobs whose epilog never came, or did not reach the daemon.
//
// A step that lives on this node is proof that its job does. Otherwise, if the prolog's marker is
// gone, the node was rebooted or the epilog's `end` was lost. If it is there, slurmd may have died
// with the job, or runs no step here: Slurm is asked, and believed when it says twice that this run
// is over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/root/basis/loop.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Orphans {
 public:
  // Reports `ended` of each that is found.
  Orphans(const JobDeps& deps, SlurmQuestion& slurm) : deps_(deps), slurm_(slurm) {}

  // For a job that is carried on from the journal: notes it as ended where a reboot has ended it,
  // before anything is started for it.
  void check_old(JobRecord& record);
  // Checks every daemon.orphan_check seconds from now on; check() does so at once.
  void watch();
  void check();

 private:
  [[nodiscard]] std::string marker_of(const JobRecord& record) const;
  [[nodiscard]] bool has_marker(const JobRecord& record) const;
  void mark(JobRecord& record, const char* why);
  void found(JobRecord& record, const char* why);
  void ask_next();
  void take_answer(const JobKey& key, SlurmAnswer answer);

  JobDeps deps_;
  SlurmQuestion& slurm_;
  std::optional<Loop::TimerId> timer_;
  std::vector<JobKey> to_ask_;               // Slurm, about these
  std::map<JobKey, unsigned> gone_answers_;  // of Slurm, in a row
};

}  // namespace nodestage
