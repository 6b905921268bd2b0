// JobFiles: what a job has on this node's disk: its directory, and the files through which its
// workers and the daemon talk. Needs root, as Areas does.
#pragma once

#include <iterator>
#include <optional>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/metrics/metrics.hpp"

namespace nodestage {

// What the daemon does differently for the workers of each task, in one table.

// The rates of the node that its jobs share.
enum class RateKind {
  read,     // from sources
  deliver,  // to targets
};

struct TaskTraits {
  const char* name;                        // the end of the names of its status file and cgroup
  std::optional<RateKind> rate;            // in which it shares
  std::optional<Activity> activity;        // as which its work is counted
  ProcessMark JobRecord::*mark = nullptr;  // where the journal notes its process; null: nowhere
  bool keeps_list = false;                 // it notes what it delivers
};

inline const TaskTraits& traits_of(WorkerTask task) {
  static const TaskTraits k_traits[] = {
      {"stage", RateKind::read, Activity::stage, &JobRecord::worker},
      {"out", RateKind::deliver, Activity::stage_out, &JobRecord::worker, true},
      {"remove", {}, {}},
      {"measure", {}, {}},
      {"notice", {}, {}},
      {"recover", {}, {}},
      {"probe", {}, {}},
      {"identify", {}, {}},
      {"compare", {}, {}},
      {"push", RateKind::deliver, Activity::push, &JobRecord::pusher, true},
      {"relay", RateKind::read, {}, &JobRecord::relayer},
      {"append", {}, {}},
      {"look", {}, {}},
      {"keep", RateKind::read, Activity::stage},
      {"serve", {}, {}, &JobRecord::server},
  };
  static_assert(std::size(k_traits) == std::variant_size_v<WorkerOrder>);
  return k_traits[to_number(task)];
}

class JobFiles {
 public:
  explicit JobFiles(const Areas& areas) : areas_(areas) {}

  // Opens the job directory where it is now. Fails with ENOENT if it is gone.
  [[nodiscard]] Result<Fd> directory(const JobRecord& record) const;
  // Returns its path, for messages and for the environment of steps.
  [[nodiscard]] std::string path(const JobRecord& record) const;
  // Makes an empty status file, for a worker that is about to start.
  [[nodiscard]] Result<Fd> new_status(const JobKey& key, WorkerTask task) const;
  // Opens k_worker_delivered_fd, which is kept until the job is forgotten.
  [[nodiscard]] Result<Fd> delivered_list(const JobKey& key) const;
  // Opens k_worker_rate_fd of the job's workers, kept until the job is forgotten.
  [[nodiscard]] Result<Fd> rate_file(const JobKey& key, RateKind kind) const;
  // Make an empty RelayPlan, read it, and write what the daemon decides.
  [[nodiscard]] Result<Fd> new_relay_plan(const JobKey& key) const;
  [[nodiscard]] Result<RelayPlan> relay_plan(const JobKey& key) const;
  [[nodiscard]] Status write_relay_plan(const JobKey& key, const RelayPlan& plan) const;
  // Removes what the last worker with this task has written.
  void forget_status(const JobKey& key, WorkerTask task) const {
    areas_.remove_status(key, traits_of(task).name);
  }
  // Returns what the last worker with this task has written; nothing if there was none.
  [[nodiscard]] WorkerStatus status(const JobKey& key, WorkerTask task) const;
  // Returns the path of results that were not delivered.
  [[nodiscard]] std::string kept_in(const JobRecord& record) const;

 private:
  const Areas& areas_;
};

}  // namespace nodestage
