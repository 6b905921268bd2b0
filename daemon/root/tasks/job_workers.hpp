// JobWorkers: the worker processes of the jobs, at most one for each task of a job, and their
// orders, limits, and shares of the node's rates.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/flow/flow.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/shares/rate_shares.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/workers/worker_process.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

// Limits and refusals that follow from a job's record and the settings. Pure functions.

Workers::Limits limits_of(WorkerTask task, const Config& config);

// Returns how long a relay worker waits for its plan: longer in a large job, whose first node
// answers all of its nodes.
std::chrono::seconds relay_wait_of(const Begin& begin, const Config& config);

// Whether the node stages for the job's user (staging.users and staging.groups). Only the job's
// worker knows the user's groups.
enum class MayStage { yes, no, by_groups };
MayStage may_stage(const Begin& begin, const Config& config);
// Returns the reason if it does not.
std::string pilot_refusal(const Begin& begin);

// Returns the reason on a node that cannot stop what the programs of environments leave behind.
std::string venv_refusal(const std::string& node);

class JobWorkers {
 public:
  // Called from the loop, never from start(). The worker is forgotten by then.
  using OnEnd = std::function<void(const JobKey& key, const WorkerEnd& end)>;
  // How a worker of a job is limited.
  struct Bounds {
    CgroupLimits resources;
    Workers::Limits limits;
  };

  JobWorkers(Loop& loop, const Config& config, JobTable& table, const JobFiles& files,
             Workers& workers, Counters& counters)
      : loop_(loop),
        config_(config),
        table_(table),
        files_(files),
        workers_(workers),
        counters_(counters) {}
  JobWorkers(const JobWorkers&) = delete;

  // Returns what follows from the record and the settings; the caller fills in the rest.
  [[nodiscard]] WorkerStart order(const JobRecord& record, WorkerTask task) const;
  [[nodiscard]] Bounds bounds(const JobRecord& record, WorkerTask task) const;

  // Returns the memory cgroups of jobs that a worker can join. A job has none while no step of it
  // has started on this node, or if Slurm makes none.
  [[nodiscard]] JobCgroups job_cgroups(const std::set<JobOfUser>& jobs) const {
    return workers_.find_job_cgroups(jobs);
  }
  // Starts a worker with a new status file. The order's directory must be open. For `stage`,
  // `stage_out`, `push` and `relay`, the record notes the process for the next daemon.
  Status start(JobRecord& record, WorkerStart start, const Bounds& bounds, const OnEnd& on_end);
  // Takes over the worker of an earlier daemon that the record notes. Returns whether it lives.
  bool adopt(JobRecord& record, WorkerTask task, OnEnd on_end);
  // Sends SIGKILL; on_end follows. Does nothing where there is no worker.
  void kill(const JobKey& key, WorkerTask task);

  [[nodiscard]] bool is_working(const JobKey& key, WorkerTask task) const;
  // Returns how long it has run; zero where there is none.
  [[nodiscard]] std::uint64_t age_ms(const JobKey& key, WorkerTask task) const;
  // Returns what its status file says, or the last worker's if none runs. Reads the file of one
  // that runs every 100 ms at most, however many callers ask.
  [[nodiscard]] WorkerStatus status(const JobKey& key, WorkerTask task) const;
  // Counts what the running workers have done so far.
  void count_work();
  // Divides the node's rates anew, which may have changed.
  void share_rates() { rates_.share(); }
  // Returns whether everything that a worker starts is killed with it.
  [[nodiscard]] bool ends_all() const { return workers_.ends_all(); }

 private:
  using Which = std::pair<JobKey, WorkerTask>;
  struct Worker {
    Workers::Id id = 0;
    Clock::time_point begun{};
    Work counted;
    mutable Clock::time_point read_at{};
    mutable WorkerStatus read;
  };
  Workers::OnEnd on_end_of(const Which& which, OnEnd on_end);
  void count(const Which& which, Worker& worker);

  Loop& loop_;
  const Config& config_;
  JobTable& table_;
  const JobFiles& files_;
  Workers& workers_;
  Counters& counters_;
  RateShares rates_{loop_, config_, files_};
  std::map<Which, Worker> at_work_;
};

// What the owners of the parts of a job's life work with (flow.hpp).
struct JobDeps {
  Loop& loop;
  const Config& config;
  Areas& areas;
  JobTable& table;
  const JobFiles& files;
  JobWorkers& workers;
  Counters& counters;
  JobEvents& events;
};

}  // namespace nodestage
