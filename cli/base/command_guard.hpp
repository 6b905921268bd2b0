// CommandGuard: a process that kills a command if this process dies before it, even by SIGKILL.
#pragma once

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

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

}  // namespace nodestage
