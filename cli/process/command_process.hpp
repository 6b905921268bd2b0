// What `nodestage` does with its own signals, and the user's command, which gets them.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/job_environment.hpp"
#include "common/result.hpp"

namespace nodestage {

// Signals: receives this process's signals one by one, in place of their default effect.

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

// CommandProcess: the user's command in its own process group, so that a signal reaches all of its
// processes and no others. If this process is killed, the command and its group are killed, too.
//
// On a terminal the command starts as a background group, so Ctrl-C reaches this process. If the
// command reads from the terminal or sets its modes, it gets the terminal, as from a shell, and
// from then on everything that the user types.

// CommandGuard: a process that kills a command if this process dies before it, even by SIGKILL.
// The guard has a session of its own and ignores signals. It holds this process's descriptors until
// the command has exited, and its locks with them: a process with such a lock finds no command.
class CommandGuard {
 public:
  static Result<CommandGuard> start();

  // Registers the calling process, the command's, which leads its group.
  void watch_this_process() const;

  // Call it before the command's process is waited for, which frees its number.
  void dismiss();

 private:
  CommandGuard() = default;

  Fd link_;  // its end means that this process has died
  ChildProcess child_;
};

class CommandProcess {
 public:
  // Returns when the program runs. If it cannot be run, the fault's code is execvp's errno.
  static Result<CommandProcess> start(const std::vector<std::string>& words,
                                      const std::vector<VariableChange>& environment,
                                      const Signals& signals);
  CommandProcess(CommandProcess&&) noexcept = default;
  ~CommandProcess();

  // Sends a signal to the whole group.
  void signal(int number) const;

  // Call it after a SIGCHLD. Returns whether the command has exited; if so, kills what is left of
  // its group. If the command was stopped, stops this process too; both continue together.
  [[nodiscard]] bool has_ended();

  // Returns, after has_ended(), its exit code, or 128 + n if signal n killed it.
  [[nodiscard]] int code() const { return code_; }

 private:
  CommandProcess() = default;
  void stopped(int number);
  bool give_terminal();
  void take_terminal();

  std::optional<CommandGuard> guard_;
  ChildProcess child_;  // none: has exited
  int code_ = 0;
  Fd terminal_;  // this process's controlling terminal, if any
  bool has_terminal_ = false;
};

}  // namespace nodestage
