// ChildProcess: owns one child of this process, from fork until it has been waited for.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// What happens to a child that still runs when its owner is destroyed.
enum class Orphan {
  killed,  // it is killed by SIGKILL and waited for
  left,    // it runs on; once it exits, it is a zombie until this process exits
};

// Move-only. A default-constructed one owns nothing. Until the child has been waited for, no other
// process can get its pid.
class [[nodiscard]] ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), orphan_(other.orphan_) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { end(); }

  // Forks. The child runs `body`, which must not throw, and exits with the code that it returns. If
  // this process has started threads, `body` may do only what is safe in a signal handler.
  template <typename Body>
  static Result<ChildProcess> start(Orphan orphan, Body&& body) {
    const pid_t pid = ::fork();
    if (pid < 0) return system_error("fork");
    if (pid == 0) [&body]() noexcept { ::_exit(body()); }();
    return ChildProcess(pid, orphan);
  }

  // Whether there is a child that has not been waited for.
  explicit operator bool() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // Sends a signal to the child, or to the whole process group that it leads or is about to lead.
  void signal(int number) const;
  void signal_group(int number) const;

  // The child's wait status, as from wait(2), if it has exited. Never blocks: the exit of a traced
  // child is reported to its tracer first, so to wait for it could mean to wait for the tracer.
  std::optional<int> reap();

  // Waits until the child exits. Returns nothing if it was waited for before.
  std::optional<int> wait();

 private:
  ChildProcess(pid_t pid, Orphan orphan) : pid_(pid), orphan_(orphan) {}
  std::optional<int> wait_for(int options);
  void end();

  pid_t pid_ = 0;
  Orphan orphan_ = Orphan::killed;
};

// Returns, as a shell does, the exit code, or 128 + n if signal n killed the process.
int exit_code_of(int wait_status);

}  // namespace nodestage
