// CommandGuard: a process that kills a command if this process dies before it, even by SIGKILL.
#pragma once

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// The guard has a session of its own and ignores signals. It holds this process's descriptors until
// the command has exited, and with them its locks: whoever gets such a lock finds no command.
class CommandGuard {
 public:
  static Result<CommandGuard> start();

  // In the command's process, which leads its group: the guard knows it from now on.
  void watch_this_process() const;

  // Before the command's process is waited for: afterwards its number may belong to another one.
  void dismiss();

 private:
  CommandGuard() = default;

  Fd link_;  // its end means that this process has died
  ChildProcess child_;
};

}  // namespace nodestage
