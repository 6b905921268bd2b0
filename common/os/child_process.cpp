#include "common/os/child_process.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

namespace nodestage {

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    orphan_ = other.orphan_;
  }
  return *this;
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void ChildProcess::signal_group(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

std::optional<int> ChildProcess::reap() { return wait_for(WNOHANG); }

std::optional<int> ChildProcess::wait() { return wait_for(0); }

std::optional<int> ChildProcess::wait_for(int options) {
  if (pid_ <= 0) return {};
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, &status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended == 0) return {};
  const bool is_known = ended == std::exchange(pid_, 0);  // else something else waited for it
  return is_known ? std::optional(status) : std::nullopt;
}

void ChildProcess::end() {
  if (orphan_ == Orphan::left) return;
  signal(SIGKILL);
  wait();
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace nodestage
