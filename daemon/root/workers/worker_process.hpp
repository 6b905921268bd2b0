// WorkerProcess: one nodestage-worker, from fork to its end.
//
// start() forks a child that enters its cgroup, gives up root (privileges.hpp), and becomes the
// worker with exactly the descriptors of common/wire/worker_order.hpp. The parent never waits: it
// watches started_fd() and pid_fd() in its loop.
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
};

// How long a process has been there.
std::chrono::milliseconds age_of(const ProcessMark& mark);

// It outlives this object, and the daemon.
class WorkerProcess {
 public:
  static Result<WorkerProcess> start(const WorkerStart& start, const Cgroups& cgroups);

  // The process that `mark` names, if it still lives.
  static std::optional<WorkerProcess> adopt(const ProcessMark& mark);

  [[nodiscard]] const ProcessMark& mark() const { return mark_; }

  // Readable when the process has ended.
  [[nodiscard]] int pid_fd() const { return pid_fd_.get(); }

  // Readable once: the worker runs (read_start_fault() is empty) or could not be started. -1 when
  // adopted or already read.
  [[nodiscard]] int started_fd() const { return started_.get(); }
  [[nodiscard]] std::string read_start_fault();

  // What the worker prints; -1 when adopted.
  [[nodiscard]] int log_fd() const { return log_.get(); }

  void kill() const;

  // After pid_fd() became readable: "ended with code 1", "killed by signal 9 (Killed)"; of an
  // adopted process nothing is known.
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
