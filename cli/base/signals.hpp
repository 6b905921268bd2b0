// Signals: receives this process's signals one by one, in place of their default effect.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Whether a signal asks a program to exit: SIGINT, SIGTERM, SIGHUP, SIGQUIT.
bool is_deadly(int signal);

// While it lives, next() returns the deadly signals, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and
// SIGCHLD; signals that were ignored before (nohup) stay ignored. SIGPIPE is ignored, SIGTTOU
// blocked. At most one object at a time, used by one thread.
class Signals {
 public:
  static Result<Signals> open();
  Signals(Signals&&) = default;
  ~Signals();

  // The next signal, or nullopt if none arrives within `patience`.
  std::optional<int> next(std::chrono::milliseconds patience);

  // In a forked child: restores the signal handling from before open().
  void give_back() const;

 private:
  Signals() = default;

  Fd fd_;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace nodestage
