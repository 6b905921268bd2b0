// Does what each of our child processes needs between fork and its own work.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> make_pipe();

// Returns a sealed file in memory with `text` as contents, at offset 0. `name` is for /proc only.
Result<Fd> sealed_text(const char* name, const std::string& text);

// Moves, in the child, each descriptor of `from` to its index (execve closes the last of them) and
// closes all others.
Status place_descriptors(std::vector<int> from);

// Closes all descriptors but these, which are in ascending order.
void close_all_but(const std::vector<int>& kept);

// In the child: sets default signal handlers, unblocks all signals, starts a new session, sets
// umask 077, disables core files, resets oom_score_adj to 0, and changes to the root directory.
Status reset_process();

// Returns the argument list that execve takes: pointers into `texts`, which must outlive them, and
// a null pointer.
std::vector<char*> exec_texts(std::vector<std::string>& texts);

// Executes, in the child, nodestage-worker without arguments, in an environment of its own. Returns
// only if that fails.
Error exec_worker(const std::string& program);

// Returns the value of a variable of this process; "" if it has none. Not thread-safe.
std::string own_variable(const char* name);

// Returns a pidfd for a child, which becomes readable when the child exits.
Result<Fd> open_pid(int pid);

// ChildProcess: owns one child of this process, from fork until it has been waited for.

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

// Asks file systems that may not answer.

// How long a user who submits waits: long for a file system that answers.
inline constexpr std::chrono::seconds k_ask_patience{3};

// Returns what `question` returns, at most 64 KiB of it. It is asked in a process of its own, so a
// file system that hangs keeps this process waiting for no longer than `limit`; without an answer
// by then, the result is empty. A process that hangs is left to itself: it holds no descriptor of
// this one and is not its child. `question` must not throw, nor use threads of this process.
std::optional<std::string> ask_apart(std::chrono::milliseconds limit,
                                     const std::function<std::string()>& question);

// Returns the name of this host's boot, the kernel's random identifier: no two hosts have the same,
// and a reboot changes it. "" if it cannot be read.
std::string boot_id();

// Returns when a process started, which distinguishes it from a later one with the same pid: clock
// ticks since boot, from /proc/PID/stat; 0 if there is no such process.
std::uint64_t start_ticks_of(const std::string& pid);

}  // namespace nodestage
