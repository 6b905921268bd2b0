#include "cli/process/command_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"

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

namespace {

// How long a killed process can take until it has exited.
constexpr int k_tries = 500;
constexpr int k_pause_ms = 10;

// Runs as the guard's own process.
int guard(Pipe& link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "nodestage-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  link.write.reset();
  pid_t group = 0;
  for (pid_t read = 0; ::read(link.read.get(), &read, sizeof read) == sizeof read;) group = read;
  for (int i = 0; group > 1 && i < k_tries && ::kill(-group, SIGKILL) == 0; ++i)
    ::poll(nullptr, 0, k_pause_ms);
  return 0;
}

}  // namespace

Result<CommandGuard> CommandGuard::start() {
  CommandGuard made;
  TRY_ASSIGN(Pipe link, make_pipe());
  TRY_ASSIGN(made.child_, ChildProcess::start(Orphan::killed, [&] { return guard(link); }));
  made.link_ = std::move(link.write);
  return made;
}

void CommandGuard::watch_this_process() const {
  const pid_t own = ::getpid();
  static_cast<void>(!write_all(link_.get(), {reinterpret_cast<const char*>(&own), sizeof own}));
}

void CommandGuard::dismiss() { child_ = {}; }

namespace {

// Runs in the child. Returns only if the program cannot be run, with errno's value.
int become(const std::vector<std::string>& words, const std::vector<VariableChange>& environment,
           const Signals& signals, const CommandGuard& guard, pid_t parent) {
  ::setpgid(0, 0);
  guard.watch_this_process();
  // The guard could be killed as well.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return ESRCH;
  change_environment(environment);
  std::vector<std::string> copies = words;
  const auto argv = exec_texts(copies);
  signals.restore_in_child();
  ::execvp(argv[0], argv.data());
  return errno;
}

}  // namespace

Result<CommandProcess> CommandProcess::start(const std::vector<std::string>& words,
                                             const std::vector<VariableChange>& environment,
                                             const Signals& signals) {
  CommandProcess process;
  // First: the guard keeps what is open, and must not keep the pipe.
  TRY_ASSIGN(CommandGuard guard, CommandGuard::start());
  process.guard_.emplace(std::move(guard));
  TRY_ASSIGN(Pipe failed, make_pipe());
  process.terminal_ = Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  const pid_t parent = ::getpid();
  const auto body = [&] {
    const int code = become(words, environment, signals, *process.guard_, parent);
    return ::write(failed.write.get(), &code, sizeof code) < 0 ? 126 : 127;
  };
  TRY_ASSIGN(process.child_, ChildProcess::start(Orphan::killed, body));
  // Parent and child both call it: either can be first.
  ::setpgid(process.child_.pid(), process.child_.pid());
  failed.write.reset();
  int code = 0;
  ssize_t count = 0;
  do {
    count = ::read(failed.read.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count != sizeof code) return process;
  process.guard_->dismiss();
  static_cast<void>(process.child_.wait());
  return system_error(words.front(), code);
}

CommandProcess::~CommandProcess() {
  if (!child_) return;
  signal(SIGKILL);
  guard_->dismiss();
  static_cast<void>(child_.wait());
  take_terminal();
}

void CommandProcess::signal(int number) const { child_.signal_group(number); }

// waitpid comes last: until then, no other process can get the pid, which is the group's number.
bool CommandProcess::has_ended() {
  while (child_) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(child_.pid());
    constexpr int k_look = WEXITED | WSTOPPED | WNOHANG | WNOWAIT;
    if (::waitid(P_PID, id, &info, k_look) != 0 || info.si_pid == 0) return false;
    if (info.si_code == CLD_STOPPED) {
      ::waitid(P_PID, id, &info, WSTOPPED | WNOHANG);
      stopped(info.si_status);
      continue;
    }
    signal(SIGKILL);
    guard_->dismiss();
    code_ = exit_code_of(child_.wait().value_or(0));
    take_terminal();
  }
  return true;
}

void CommandProcess::stopped(int number) {
  const bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
  if (!wants_terminal || !give_terminal()) {
    const bool had_terminal = has_terminal_;
    take_terminal();
    ::kill(0, SIGSTOP);  // as a shell expects of all processes of one job
    if (wants_terminal || had_terminal) give_terminal();
  }
  signal(SIGCONT);
}

// Returns false if the terminal does not belong to this process's group.
bool CommandProcess::give_terminal() {
  if (!terminal_ || ::tcgetpgrp(terminal_.get()) != ::getpgrp()) return false;
  has_terminal_ = ::tcsetpgrp(terminal_.get(), child_.pid()) == 0;
  return has_terminal_;
}

void CommandProcess::take_terminal() {
  if (!std::exchange(has_terminal_, false)) return;
  ::tcsetpgrp(terminal_.get(), ::getpgrp());
}

}  // namespace nodestage
