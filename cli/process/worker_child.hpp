// WorkerChild: a nodestage-worker that this process runs for its own user, with the same
// descriptors, privileges (none) and messages as from the daemon: common/wire/worker_order.hpp.
//
// It has no limit of rate or time, admits itself to the disk, and can take 4 GiB of memory. It dies
// with this process.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/process/command_process.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/talk/task_voice.hpp"
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
  int delivered_fd = -1;      // k_worker_delivered_fd; -1: none
  int memory_fd = -1;         // k_worker_memory_fd; -1: none
  std::vector<int> fuse_fds;  // at most k_max_images
};

class WorkerChild {
 public:
  // Returns when the worker runs; a fault if it cannot be started.
  static Result<WorkerChild> start(const WorkerCall& call);
  WorkerChild(WorkerChild&&) noexcept = default;
  ~WorkerChild() { kill(); }

  // Returns whether it has exited. Never blocks.
  [[nodiscard]] bool has_ended();

  // Kills it and the processes that it started, and waits for them; so this process must have no
  // other children than one that serves.
  void kill();

  // What it has reported so far.
  [[nodiscard]] Result<WorkerStatus> status() const { return read_worker_status(status_.get()); }

  // Returns the cause, if known, for a worker that exited without reporting one.
  [[nodiscard]] std::string last_words() const;

 private:
  WorkerChild() = default;

  ChildProcess child_;  // none: has exited
  WorkerTask task_ = WorkerTask::stage;
  int wait_status_ = 0;
  Fd status_;
  Fd log_;  // what it printed
};

// Waits for a WorkerChild on behalf of its user.

// Why a worker was killed before its end.
struct WorkerStop {
  int signal = 0;  // the deadly signal that this process received; 0: it was called off
};

// Waits until the worker has exited, and shows its progress meanwhile. Kills it at a deadly signal,
// and once is_called_off, which is asked a few times per second, returns true. Calls `before_kill`
// before that.
std::optional<WorkerStop> watch_worker(WorkerChild& worker, Signals& signals, TaskVoice& voice,
                                       const std::function<bool()>& is_called_off = {},
                                       const std::function<void()>& before_kill = {});

// Returns how a worker that has exited by itself has ended: its status, in which outputs may have
// failed; or a fault in words for the user.
Result<WorkerStatus> end_of_worker(const WorkerChild& worker, WorkerTask task);

// Explains a fault of WorkerChild::start().
Error cannot_start_worker(const Error& fault);

}  // namespace nodestage
