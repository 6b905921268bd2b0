// WorkerChild: a nodestage-worker run by this process for its own user, with the descriptors, the
// privileges (none) and the messages that the daemon gives it: common/wire/worker_order.hpp.
//
// Nobody limits its rate or its time, and it admits itself to the disk. It ends with this process.
#pragma once

#include <string>

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// The worker of this installation: beside this program (../libexec/nodestage), or else where the
// build says.
std::string worker_program();

// directory_fd is borrowed.
struct WorkerCall {
  std::string program;
  WorkerOrder order;
  std::string request;
  int directory_fd = -1;
};

class WorkerChild {
 public:
  // Returns when the worker runs; a fault when it cannot be started.
  static Result<WorkerChild> start(const WorkerCall& call);
  WorkerChild(WorkerChild&&) noexcept = default;
  ~WorkerChild() { kill(); }

  // Whether it has ended. Never blocks.
  [[nodiscard]] bool has_ended();

  // Ends it, and what it has started, at once; waits for that.
  void kill();

  // What it has said so far.
  [[nodiscard]] Result<WorkerStatus> status() const { return read_worker_status(status_.get()); }

  // After its end without a word of its own: why, as far as that is known.
  [[nodiscard]] std::string last_words() const;

 private:
  WorkerChild() = default;

  ChildProcess child_;  // none: it has ended
  int wait_status_ = 0;
  Fd status_;
  Fd log_;  // what it printed
};

}  // namespace nodestage
