// Workers: all worker processes of this daemon, each watched from its start to its exit. Tests put
// scripted ones in their place.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/settings/config.hpp"
#include "common/wire/daemon_about.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/cgroup.hpp"
#include "daemon/root/workers/worker_process.hpp"

namespace nodestage {

class Workers {
 public:
  using Id = std::uint64_t;
  using OnEnd = std::function<void(const WorkerEnd&)>;

  struct Limits {
    std::chrono::seconds start{30};  // to become the worker, which includes asking NSS
    std::chrono::seconds run{86'400};
    std::chrono::seconds kill{10};  // from SIGKILL to giving it up
    // The limit without any use of a processor; 0: none, for what may wait for a file system.
    std::chrono::seconds idle{0};
  };

  Workers(Loop& loop, Cgroups cgroups) : loop_(loop), cgroups_(std::move(cgroups)) {}
  Workers(const Workers&) = delete;
  virtual ~Workers() = default;

  // Starts a worker whose log lines are about `subject`. on_end is called once, from the loop,
  // never from start().
  virtual Result<Id> start(const WorkerStart& start, const CgroupLimits& resources,
                           const Limits& limits, Subject subject, OnEnd on_end);
  // Takes over a worker of an earlier daemon, if it still runs.
  virtual std::optional<Id> adopt(const ProcessMark& mark, const std::string& cgroup,
                                  const Limits& limits, Subject subject, OnEnd on_end);
  // Sends SIGKILL to the worker and all its children; on_end follows.
  virtual void kill(Id id);
  [[nodiscard]] virtual ProcessMark mark(Id id) const;
  // The process ids of all workers that have not been reaped.
  [[nodiscard]] virtual std::vector<pid_t> pids() const;
  // Returns whether everything that a worker starts is killed with it, whatever it does.
  [[nodiscard]] virtual bool ends_all() const { return cgroups_.available(); }

  // As cgroup.hpp has it.
  [[nodiscard]] virtual JobCgroups find_job_cgroups(const std::set<JobOfUser>& jobs) const {
    return nodestage::find_job_cgroups(jobs);
  }

  // Kills what earlier daemons left in cgroups that no adopted worker uses.
  void kill_orphaned_workers();

 private:
  struct Worker {
    WorkerProcess process;
    std::string cgroup;
    Subject subject;
    OnEnd on_end;
    Limits limits;
    std::optional<WorkerEnd> verdict;  // set when the daemon kills it
    std::optional<Loop::TimerId> timer;
    unsigned log_lines = 0;
    std::string log_rest;
    std::optional<Loop::TimerId> idle_timer;
    std::chrono::nanoseconds used{0};  // of a processor, at the last look
    std::string job_cgroup;            // "": its memory is not charged to a job
    std::uint64_t kills = 0;           // for lack of memory there, when it started
    bool is_jobs_memory = false;       // its own limit of memory is the job's
  };

  Id add(Worker worker);
  Status watch(Id id);
  void started(Id id);
  void read_log(Id id);
  void set_run_limit(Id id);
  void give_up(Id id, WorkerEnd verdict);
  void watch_use(Id id);
  void look_at_use(Id id);
  void ended(Id id);
  void report(Id id, const WorkerEnd& end);
  void set_timer(Worker& worker, std::chrono::seconds delay, Loop::Callback due);
  void remove_cgroup(const std::string& name, int tries_left);

  Loop& loop_;
  Cgroups cgroups_;
  std::map<Id, Worker> workers_;
  Id next_ = 1;
};

// Finds out whether workers can confine themselves on this node: in `directory`, any that exists, a
// worker tries just that (daemon/worker/process/write_places.hpp), as the user "nobody". Logs the
// result, or why there is none. on_found is called once, from the loop. `config` must outlive
// `workers`.
void probe_sandbox(Workers& workers, const Config& config, const std::string& directory,
                   const std::function<void(const SandboxState&)>& on_found);

}  // namespace nodestage
