#include "cli/base/signals.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

namespace nodestage {
namespace {

constexpr int k_deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int k_others[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCHLD};

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

bool is_deadly(int signal) {
  return std::find(std::begin(k_deadly), std::end(k_deadly), signal) != std::end(k_deadly);
}

Result<Signals> Signals::open() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : k_deadly) {
    if (!is_ignored(signal)) ::sigaddset(&wanted, signal);
  }
  for (const int signal : k_others) {
    if (!is_ignored(signal)) ::sigaddset(&wanted, signal);
  }
  static_cast<void>(::signal(SIGCHLD, SIG_DFL));  // if it were ignored, there would be no exit code
  ::sigaddset(&wanted, SIGCHLD);
  Signals signals;
  signals.fd_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.fd_) return system_error("signalfd");
  ::sigaddset(&wanted, SIGTTOU);
  if (::sigprocmask(SIG_BLOCK, &wanted, &signals.before_) != 0) return system_error("sigprocmask");
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, &signals.pipe_before_);
  return signals;
}

Signals::~Signals() {
  if (fd_) restore_in_child();
}

std::optional<int> Signals::next(std::chrono::milliseconds patience) {
  pollfd on{fd_.get(), POLLIN, 0};
  ::poll(&on, 1, static_cast<int>(patience.count()));
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {};
  const auto signal = static_cast<int>(info.ssi_signo);
  if (is_repeated(signal)) return {};
  return signal;
}

bool Signals::is_repeated(int signal) {
  if (!is_deadly(signal)) return false;
  const auto now = Clock::now();
  if (signal == last_ && now - last_at_ < k_one_request) return true;
  last_ = signal;
  last_at_ = now;
  return false;
}

void Signals::restore_in_child() const {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace nodestage
