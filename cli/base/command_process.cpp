#include "cli/base/command_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

// In the child. Returns only if the program cannot be run, with errno's value.
int become(const std::vector<std::string>& words, const std::vector<VariableChange>& environment,
           const Signals& signals) {
  ::setpgid(0, 0);
  for (const auto& [name, value] : environment) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  argv.reserve(copies.size() + 1);
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  signals.give_back();
  ::execvp(argv[0], argv.data());
  return errno;
}

}  // namespace

Result<CommandProcess> CommandProcess::start(const std::vector<std::string>& words,
                                             const std::vector<VariableChange>& environment,
                                             const Signals& signals) {
  CommandProcess process;
  TRY_ASSIGN(Pipe failed, make_pipe());
  process.terminal_ = Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    const int code = become(words, environment, signals);
    ::_exit(::write(failed.write.get(), &code, sizeof code) < 0 ? 126 : 127);
  }
  process.pid_ = pid;
  ::setpgid(pid, pid);  // parent and child both call it: either can be first
  failed.write.reset();
  int code = 0;
  ssize_t count = 0;
  do {
    count = ::read(failed.read.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count != sizeof code) return process;
  ::waitpid(pid, nullptr, 0);
  process.pid_ = -1;
  return system_error(words.front(), code);
}

CommandProcess::CommandProcess(CommandProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      code_(other.code_),
      terminal_(std::move(other.terminal_)),
      has_terminal_(std::exchange(other.has_terminal_, false)) {}

CommandProcess::~CommandProcess() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  take_terminal();
}

void CommandProcess::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

// waitpid comes last: until then, no other process can get the pid, which is the group's number.
bool CommandProcess::has_ended() {
  while (pid_ > 0) {
    siginfo_t info{};
    constexpr int k_look = WEXITED | WSTOPPED | WNOHANG | WNOWAIT;
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, k_look) != 0 || info.si_pid == 0)
      return false;
    if (info.si_code == CLD_STOPPED) {
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG);
      stopped(info.si_status);
      continue;
    }
    signal(SIGKILL);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
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

// False if the terminal does not belong to this process's group.
bool CommandProcess::give_terminal() {
  if (!terminal_ || ::tcgetpgrp(terminal_.get()) != ::getpgrp()) return false;
  has_terminal_ = ::tcsetpgrp(terminal_.get(), pid_) == 0;
  return has_terminal_;
}

void CommandProcess::take_terminal() {
  if (!std::exchange(has_terminal_, false)) return;
  ::tcsetpgrp(terminal_.get(), ::getpgrp());
}

}  // namespace nodestage
