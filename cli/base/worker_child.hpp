// WorkerChild: a nodestage-worker that this process runs for its own user, with the same
// descriptors, privileges (none) and messages as from the daemon: common/wire/worker_order.hpp.
//
// It has no limit of rate or time, admits itself to the disk, and can take 4 GiB of memory. It dies
// with this process.
#pragma once

#include <string>

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Returns the path of this installation's worker: relative to this program (../libexec/nodestage),
// or else the path from the build.
std::string worker_program();

// Descriptors are borrowed.
struct WorkerCall {
  std::string program;
  WorkerOrder order;
  std::string request;
  int directory_fd = -1;
  int delivered_fd = -1;  // k_worker_delivered_fd; -1: none
  int memory_fd = -1;     // k_worker_memory_fd; -1: none
};

class WorkerChild {
 public:
  // Returns when the worker runs; a fault if it cannot be started.
  static Result<WorkerChild> start(const WorkerCall& call);
  WorkerChild(WorkerChild&&) noexcept = default;
  ~WorkerChild() { kill(); }

  // Returns whether it has exited. Never blocks.
  [[nodiscard]] bool has_ended();

  // Kills it and the processes that it started, and waits for them.
  void kill();

  // What it has reported so far.
  [[nodiscard]] Result<WorkerStatus> status() const { return read_worker_status(status_.get()); }

  // Returns the cause, if known, for a worker that exited without reporting one.
  [[nodiscard]] std::string last_words() const;

 private:
  WorkerChild() = default;

  ChildProcess child_;  // none: has exited
  int wait_status_ = 0;
  Fd status_;
  Fd log_;  // what it printed
};

}  // namespace nodestage
