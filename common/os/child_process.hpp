// ChildProcess: the owner of one child of this process, from fork until it has been waited for.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// What becomes of a child that still runs when its owner ends.
enum class Orphan {
  killed,  // by SIGKILL, and waited for
  left,    // it goes on, or ends as a zombie that goes with this process
};

// Move-only; a default one owns nothing. Until it has been waited for, its number is nobody else's.
class [[nodiscard]] ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), orphan_(other.orphan_) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { end(); }

  // Forks. `body` is the child's whole life; what it returns is the exit code, and nothing is
  // thrown out of it. After threads have been started it may only do what is safe in a signal
  // handler.
  template <typename Body>
  static Result<ChildProcess> start(Orphan orphan, Body&& body) {
    const pid_t pid = ::fork();
    if (pid < 0) return system_error("fork");
    if (pid == 0) [&body]() noexcept { ::_exit(body()); }();
    return ChildProcess(pid, orphan);
  }

  // Whether it has not been waited for.
  explicit operator bool() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // To itself; to all of the group that it leads, or that it is about to.
  void signal(int number) const;
  void signal_group(int number) const;

  // What wait(2) says of it, if it has ended. Never blocks: one that somebody traces is shown to
  // its tracer first, and would be waited for until that ends.
  std::optional<int> reap();

  // Waits for its end. Nothing when it was waited for before.
  std::optional<int> wait();

 private:
  ChildProcess(pid_t pid, Orphan orphan) : pid_(pid), orphan_(orphan) {}
  std::optional<int> wait_for(int options);
  void end();

  pid_t pid_ = 0;
  Orphan orphan_ = Orphan::killed;
};

// As a shell has it: the exit code, or 128 + the number of the signal that has ended it.
int exit_code_of(int wait_status);

}  // namespace nodestage
