// Staging: a job from its directory to ready or failed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/relay/relays.hpp"
#include "daemon/root/shares/space_allocator.hpp"
#include "daemon/root/staging/first_steps.hpp"
#include "daemon/root/staging/images.hpp"
#include "daemon/root/staging/sharing.hpp"
#include "daemon/root/staging/staging_queue.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Staging {
 public:
  struct Deps : JobDeps {
    SpaceAllocator& allocator;
    const HeldResults& held;  // may refuse outputs
    Cache& cache;
    Relays& relays;
    const Images& images;
  };
  explicit Staging(const Deps& deps) : deps_(deps) {}
  Staging(const Staging&) = delete;

  // Makes the directory of a job that waits for it, or finds it made by a daemon that died.
  [[nodiscard]] Result<Areas::Maker> make_directory(const JobRecord& record) const;
  // Waits for the directory that the site makes. Reports `unstaged` when it is there.
  void await_directory(JobRecord& record);
  // For jobs that are carried on from the journal: take over the worker that the record notes, if
  // it lives, or what a worker that has exited has reported.
  void adopt(JobRecord& record);
  void read_staging(JobRecord& record);
  // What jobs do with their shared items.
  [[nodiscard]] Sharing& sharing() { return sharing_; }
  [[nodiscard]] const Sharing& sharing() const { return sharing_; }
  // Makes the job's state queued. Reports `queued`.
  void enqueue(JobRecord& record);
  // Waits for the job's first step on this node, whose memory its items take. Reports `step_found`.
  void await_step(const JobRecord& record);
  // Puts the job into the queue. Reports `turn` when it has a place.
  void await_turn(const JobRecord& record);
  // Does nothing but give back a place that the job got meanwhile: what it waits for reports of it.
  void await_leader(const JobRecord& record) { leave_place(record.key()); }
  // Has the keeper stage what the job shares with all who may read it. Sharing reports the rest.
  void keep(JobRecord& record);
  void release_memory(const JobRecord& record);
  // Starts a worker that stages. Reports `ready` or `failed`, or `unstaged` if what it has staged
  // does not count; before that, `staged_more`, and what comes of it.
  void stage(JobRecord& record);
  void worker_ended(const JobKey& key, const WorkerEnd& end);
  // Gives others what the worker reports to be complete. Reports `ready`, `fresh` or `spoilt`.
  void take_report(JobRecord& record);
  // Reports `staged_more` with the clock's next tick.
  void await_tick(const JobKey& key);
  // Reports `unstaged` when what is kept and not in use has gone, or after a minute.
  void await_quota(const JobRecord& record);

  // Notes that the job has failed. `item`: the source of the one that failed, where there is one.
  void fail(JobRecord& record, FailureCause why, const Error& cause, const std::string& item = {});
  // Takes a job that has ended out of the queue and kills its worker: the state is `stopping`, and
  // its exit is reported as `stopped`.
  void stop(JobRecord& record);
  void start_queued() { queue_.go_on(); }

  [[nodiscard]] std::size_t jobs_ahead(const JobKey& key) const { return queue_.ahead_of(key); }
  [[nodiscard]] std::string wait_line(const JobKey& key) const;
  // Returns what a queued job waits for, if not for its turn: "job 4711, which ...".
  [[nodiscard]] std::string waits_for(const JobKey& key) const;
  // Returns what a job that stages waits for, if it lacks space; see SpaceAllocator::lack_of().
  [[nodiscard]] std::string lack_of(const JobKey& key) const {
    return deps_.allocator.lack_of(key);
  }
  // Returns why async items of a ready job were not staged: how their worker ended; "" when it
  // still runs or has staged all.
  [[nodiscard]] std::string async_fault(const JobKey& key) const;
  void forget(const JobKey& key) {
    async_faults_.erase(key);
    over_quota_.erase(key);
    first_steps_.forget(key);
    hints_.erase(key);
    cgroups_.erase(key);
  }

  // Adds what would have saved the work to the notes of the job's items (staging.hints).
  void add_hints(const JobKey& key, WorkerStatus& status) const;

 private:
  void seek_directory(const JobKey& key, Clock::time_point give_up);
  // `cgroup`: FirstSteps::cgroup_of().
  Fd use_memory(const JobRecord& record, const std::string& cgroup, WorkerStart& start,
                JobWorkers::Bounds& bounds);
  void leave_place(const JobKey& key);
  Status start_keep(JobRecord& record, const KeepItems& items);
  void keep_ended(const JobKey& key, const KeepItems& items, const WorkerEnd& end);
  Status start_worker(JobRecord& record, const std::string& cgroup);
  bool stage_again(JobRecord& record, const WorkerStatus& status);
  bool await_next_step(JobRecord& record, const WorkerEnd& end);
  void look_at_trash(const JobKey& key, Clock::time_point give_up);
  void poll_reports();
  [[nodiscard]] bool has_staged_more(const JobRecord& record) const;
  Status keep_complete(JobRecord& record, const WorkerStatus& status);
  void become_ready(JobRecord& record, const WorkerStatus& status, Sharing::Report report);
  [[nodiscard]] WorkerStart order_of(const JobRecord& record) const;
  void take_end(JobRecord& record, const WorkerEnd& end, bool lacked_space);
  void count_sources(const JobRecord& record, const WorkerStatus& status);

  Deps deps_;
  StagingQueue queue_{deps_};
  Keeping keeping_{deps_, deps_.cache, deps_.allocator};
  Sharing sharing_{{deps_, deps_.cache, keeping_}};
  std::map<JobKey, std::string> async_faults_;
  std::set<JobKey> over_quota_;  // jobs that stage again, since their users' quota has room now
  FirstSteps first_steps_{deps_};
  std::optional<Loop::TimerId> poll_;  // of what workers report
  RepeatedSources repeated_;
  std::map<JobKey, std::map<std::size_t, std::string>> hints_;  // by the index of the item
  std::map<JobKey, std::string> cgroups_;  // of jobs, that a worker has been in
};

}  // namespace nodestage
