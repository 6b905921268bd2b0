#include "cli/base/command_guard.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

// How long a killed process can take until it has exited.
constexpr int k_tries = 500;
constexpr int k_pause_ms = 10;

void kill_group(pid_t group) {
  for (int i = 0; i < k_tries && ::kill(-group, SIGKILL) == 0; ++i) ::poll(nullptr, 0, k_pause_ms);
}

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
  if (group > 1) kill_group(group);
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

}  // namespace nodestage
