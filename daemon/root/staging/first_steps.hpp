// FirstSteps: jobs that may have items in memory wait for their first step on this node, whose
// memory these are. With PrologFlags=Contain, Slurm starts one on every node when the prolog has
// ended. Without it, a node may have none until all nodes are ready.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class FirstSteps {
 public:
  explicit FirstSteps(const JobDeps& deps) : deps_(deps) {}
  FirstSteps(const FirstSteps&) = delete;

  // Reports `step_found` once, from the loop or from an answer of Slurm's, when the job has a step,
  // or will not be waited for any longer: not if it is no longer queued.
  // After k_most_lost steps that had ended too early, it asks Slurm how much memory the job may
  // use, instead.
  void wait(const JobRecord& record);
  // The memory cgroup of the job that a worker can join; "": none.
  [[nodiscard]] std::string cgroup_of(const JobRecord& record) const;
  // How much memory Slurm says a job without one may use; 0: it does not say.
  [[nodiscard]] std::uint64_t memory_of(const JobKey& key) const;
  // Whether `step_found` was reported since the job had a step.
  [[nodiscard]] bool had_step(const JobKey& key) const;
  // Notes that its step had ended before a worker could join it. Returns whether it is worthwhile
  // to wait for another one.
  [[nodiscard]] bool lost(const JobKey& key);
  void forget(const JobKey& key);

 private:
  void look();
  void look_at(Clock::time_point due);
  void ask_slurm(const JobRecord& record);
  // Nothing: it has a step, whose cgroup knows it.
  void found(const JobKey& key, std::optional<std::uint64_t> bytes);
  [[nodiscard]] const JobRecord* queued(const JobKey& key) const;

  JobDeps deps_;
  JobQuestions questions_{deps_.loop, deps_.config};
  // When a job gives up; nothing: Slurm has been asked.
  std::map<JobKey, std::optional<Clock::time_point>> waiting_;
  std::map<JobKey, std::optional<std::uint64_t>> memory_of_;  // as for found()
  std::map<JobKey, unsigned> lost_;  // steps that had ended before a worker could join them
  std::optional<Loop::TimerId> timer_;
  Clock::time_point due_{};     // of the timer
  Clock::time_point looked_{};  // the last time
  std::chrono::milliseconds pause_{0};
};

}  // namespace nodestage
