// JobWorkers: the worker processes of the jobs, at most one of a job for each task. Their orders
// and limits are in worker_orders.hpp.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "common/result.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/metrics.hpp"
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
             Workers& workers, Counters& counters, int rate_fd)
      : loop_(loop),
        config_(config),
        table_(table),
        files_(files),
        workers_(workers),
        counters_(counters),
        rate_fd_(rate_fd) {}
  JobWorkers(const JobWorkers&) = delete;
  JobWorkers& operator=(const JobWorkers&) = delete;

  // What follows from the record and the settings; the caller fills in the rest.
  [[nodiscard]] WorkerStart order(const JobRecord& record, WorkerTask task) const;
  [[nodiscard]] Bounds bounds(const JobRecord& record, WorkerTask task) const;

  // With a new status file. The order's directory must be open. Of `stage` and `stage_out` the
  // record notes the process, so that the next daemon takes it over.
  Status start(JobRecord& record, WorkerStart start, const Bounds& bounds, OnEnd on_end);
  // Of an earlier daemon, as the record notes it. Whether it lives.
  bool adopt(JobRecord& record, WorkerTask task, OnEnd on_end);
  // SIGKILL; its end is reported as ever. Nothing where there is none.
  void kill(const JobKey& key, WorkerTask task);

  [[nodiscard]] bool is_working(const JobKey& key, WorkerTask task) const;
  // How long it has worked; zero where there is none.
  [[nodiscard]] Clock::duration age(const JobKey& key, WorkerTask task) const;
  // What its status file says, or, where there is none, the last one's. While it works the file is
  // not read anew for everybody who asks, but every 100 ms.
  [[nodiscard]] WorkerStatus status(const JobKey& key, WorkerTask task) const;
  // Counts what those at work have done by now.
  void count_work();
  // Whether all that a worker starts ends with it.
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
  const int rate_fd_;
  std::map<Which, Worker> at_work_;
};

}  // namespace nodestage
