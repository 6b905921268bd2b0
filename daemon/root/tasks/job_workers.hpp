// JobWorkers: the worker processes of the jobs, at most one for each task of a job. Their orders
// and limits are in worker_orders.hpp.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/metrics.hpp"
#include "daemon/root/tasks/rate_shares.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

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
  JobWorkers& operator=(const JobWorkers&) = delete;

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
  Status start(JobRecord& record, WorkerStart start, const Bounds& bounds, OnEnd on_end);
  // Takes over the worker of an earlier daemon that the record notes. Returns whether it lives.
  bool adopt(JobRecord& record, WorkerTask task, OnEnd on_end);
  // Sends SIGKILL; on_end follows. Does nothing where there is no worker.
  void kill(const JobKey& key, WorkerTask task);

  [[nodiscard]] bool is_working(const JobKey& key, WorkerTask task) const;
  // Returns how long it has run; zero where there is none.
  [[nodiscard]] Clock::duration age(const JobKey& key, WorkerTask task) const;
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

}  // namespace nodestage
