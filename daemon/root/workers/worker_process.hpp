// WorkerProcess: one nodestage-worker, from fork to exit.
//
// start() forks a child that enters its cgroup, gives up root (privileges.hpp), and becomes the
// worker with exactly the descriptors of common/wire/worker_order.hpp. The parent never waits: it
// watches started_fd() and pid_fd() in its loop. start() needs root.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/process_mark.hpp"
#include "daemon/root/workers/cgroup.hpp"
#include "daemon/root/workers/privileges.hpp"

namespace nodestage {

// Everything start() needs. Descriptors are borrowed.
struct WorkerStart {
  std::string program;
  std::string cgroup;  // made by the caller
  WorkerOrder order;
  Groups groups = Groups::resolve;
  std::string request;
  int status_fd = -1;
  int directory_fd = -1;
  int rate_fd = -1;
  int answer_fd = -1;
  // Open for reading and writing; -1: none.
  int delivered_fd = -1;
  int board_fd = -1;
  int spool_fd = -1;
  int sources_fd = -1;
  int memory_fd = -1;
  // Of the job (job_cgroup.hpp): the worker's memory is charged to it. Empty: to `cgroup`.
  std::string job_cgroup;
};

// Returns how long ago the process started.
std::chrono::milliseconds age_of(const ProcessMark& mark);

// The process outlives this object, and the daemon.
class WorkerProcess {
 public:
  // The start fault of a worker that would have been in the job's memory cgroup.
  static constexpr std::string_view k_step_gone =
      "the job's step, whose memory cgroup it was to enter, had ended";

  static Result<WorkerProcess> start(const WorkerStart& start, const Cgroups& cgroups);

  // Returns the process that `mark` names, if it still runs.
  static std::optional<WorkerProcess> adopt(const ProcessMark& mark);

  [[nodiscard]] const ProcessMark& mark() const { return mark_; }

  // Readable when the process has exited.
  [[nodiscard]] int pid_fd() const { return pid_fd_.get(); }

  // Readable once: the worker runs (read_start_fault() is empty) or could not be started. -1 if
  // adopted or already read.
  [[nodiscard]] int started_fd() const { return started_.get(); }
  [[nodiscard]] std::string read_start_fault();

  // Returns the worker's stdout and stderr; -1 if adopted.
  [[nodiscard]] int log_fd() const { return log_.get(); }

  void kill() const;

  // Call it when pid_fd() is readable. Returns "ended with code 1" or "was killed by signal 9
  // (Killed)"; only "ended" for an adopted process, of which nothing is known.
  [[nodiscard]] std::string reap();

 private:
  WorkerProcess() = default;
  ProcessMark mark_;
  ChildProcess child_;  // none: adopted
  Fd pid_fd_;
  Fd started_;
  Fd log_;
};

}  // namespace nodestage
