// Builder: the process below the worker that runs other programs (python, pip, uv, a shell for
// modules), one after another. The worker itself starts none: it has threads, and a sandbox in
// which nothing can be started.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"

namespace nodestage {

// No string holds a NUL.
struct BuildCommand {
  std::vector<std::string> arguments;    // the first one is the program's path
  std::vector<std::string> environment;  // all of it
  std::string directory;                 // where it runs
  std::string log;                       // its output is added to this file, which is made (0600)
  std::string output;                    // its standard output goes here instead, unless empty
};

// Movable. One thread at a time calls run().
class Builder {
 public:
  using Clock = std::chrono::steady_clock;

  // Forks it, into enter_build_sandbox(job_fd) and with that umask; no other thread may run yet. It
  // ends, with all that it has started, when this object does, or this process. From here on
  // SIGPIPE is ignored. The other functions make no system call but read, write, poll and close:
  // they work in the worker's sandbox, which is entered after this.
  static Result<Builder> start(int job_fd, mode_t umask);
  Builder(Builder&&) = default;
  Builder& operator=(Builder&&) = delete;
  ~Builder();

  // What holds for it and all that it starts.
  [[nodiscard]] const Sandbox& sandbox() const { return sandbox_; }

  // The exit code, 128 + N after signal N; 127: `arguments[0]` cannot be started, the log says why.
  // Ended early, all that the command started with it: stopped(); a fault of `check`, which is
  // asked every second; ETIMEDOUT at the deadline. There is no further run() after that.
  Result<int> run(const BuildCommand& command, Clock::time_point deadline,
                  const std::atomic<bool>& stop, const std::function<Status()>& check);

 private:
  Builder(Fd commands, Fd answers, Sandbox sandbox)
      : commands_(std::move(commands)),
        answers_(std::move(answers)),
        sandbox_(std::move(sandbox)) {}
  void end();

  Fd commands_;  // pipes; the builder ends when the first one is closed
  Fd answers_;
  Sandbox sandbox_;
};

}  // namespace nodestage
