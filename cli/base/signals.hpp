// Signals: receives this process's signals one by one, in place of their default effect.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

// Returns whether a signal asks a program to exit: SIGINT, SIGTERM, SIGHUP, SIGQUIT.
bool is_deadly(int signal);

// A deadly signal that repeats the last one within this time is the same request: `timeout` signals
// its child, and then its whole group.
inline constexpr std::chrono::seconds k_one_request{2};

// While it lives, next() returns the deadly signals, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and
// SIGCHLD; signals that were ignored before (nohup) stay ignored. SIGPIPE is ignored, SIGTTOU
// blocked. At most one object at a time, used by one thread.
class Signals {
 public:
  static Result<Signals> open();
  Signals(Signals&&) = default;
  ~Signals();

  // Returns the next signal, or nullopt if none arrives within `patience`, or one that repeats the
  // last (k_one_request).
  std::optional<int> next(std::chrono::milliseconds patience);

  // Restores, in a forked child, the signal handling from before open().
  void restore_in_child() const;

 private:
  using Clock = std::chrono::steady_clock;
  Signals() = default;
  bool is_repeated(int signal);

  Fd fd_;
  int last_ = 0;  // the deadly signal that came last; 0: none
  Clock::time_point last_at_;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace nodestage
