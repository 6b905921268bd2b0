// Signals: those that this process is sent, one after another, instead of their usual effect.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Whether a signal asks a program to end: SIGINT, SIGTERM, SIGHUP, SIGQUIT.
bool is_deadly(int signal);

// While it lives, the deadly ones, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and SIGCHLD come from
// next(); those that were ignored before (nohup) stay so. SIGPIPE is ignored, SIGTTOU blocked. One
// at a time; one thread.
class Signals {
 public:
  static Result<Signals> open();
  Signals(Signals&&) = default;
  ~Signals();

  // The next one, or nothing when none came for so long.
  std::optional<int> next(std::chrono::milliseconds patience);

  // In a forked child: everything as it was before.
  void give_back() const;

 private:
  Signals() = default;

  Fd fd_;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace nodestage
