// CommandProcess: the user's command as a process group of its own, so that a signal reaches all of
// it and nothing else.
//
// On a terminal it is started in the background, as far as that knows: Ctrl-C comes to us. One that
// reads from the terminal or sets its modes is then given it, as a shell would; what the user types
// is its own from there on.
#pragma once

#include <string>
#include <vector>

#include "cli/base/signals.hpp"
#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/request/job_environment.hpp"
#include "common/result.hpp"

namespace nodestage {

class CommandProcess {
 public:
  // Returns when it runs. The fault's code is execvp's errno when the program cannot be run.
  static Result<CommandProcess> start(const std::vector<std::string>& words,
                                      const std::vector<VariableChange>& environment,
                                      const Signals& signals);
  CommandProcess(CommandProcess&&) noexcept = default;
  ~CommandProcess();

  // To all of its group.
  void signal(int number) const;

  // After a SIGCHLD. Whether it has ended; then what it left in its group is ended, too. One that
  // was stopped stops this process with it, and goes on when that does.
  [[nodiscard]] bool has_ended();

  // After its end: its exit code, 128 + n when signal n has ended it.
  [[nodiscard]] int code() const { return code_; }

 private:
  CommandProcess() = default;
  void stopped(int number);
  bool give_terminal();
  void take_terminal();

  ChildProcess child_;  // none: it has ended
  int code_ = 0;
  Fd terminal_;  // this process's controlling one, if there is one
  bool has_terminal_ = false;
};

}  // namespace nodestage
