#include "daemon/root/workers/worker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <sstream>

#include "common/os/child.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr int k_started_fd = k_worker_fds_end;  // closed by execve

// Reopens what the daemon writes and the worker must not, for reading only. -1: an empty file.
Result<Fd> for_reading(int fd) {
  return open_at(AT_FDCWD, fd < 0 ? "/dev/null" : "/proc/self/fd/" + std::to_string(fd), O_RDONLY);
}

// The child's whole life up to execve; returns only a fault.
Status become_worker(const WorkerStart& start, const Cgroups& cgroups) {
  TRY(cgroups.enter(start.cgroup));
  TRY(reset_process());
  if (::access(start.program.c_str(), X_OK) != 0) return system_error(start.program);
  if (start.order.uid == 0 && start.order.task == WorkerTask::remove) {
    TRY(become_remover());
  } else {
    TRY(become({start.order.uid, start.order.gid, start.order.user}, start.groups));
  }
  std::string program = start.program;
  std::string name = "nodestage-worker";
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string locale = "LC_ALL=C.UTF-8";
  char* const argv[] = {name.data(), nullptr};
  char* const environment[] = {path.data(), locale.data(), nullptr};
  ::execve(program.c_str(), argv, environment);
  return system_error(program);
}

std::uint64_t start_ticks_of(pid_t pid) {
  const auto text = read_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return 0;
  // The command's name, in parentheses, may contain anything; field 3 follows the last parenthesis.
  std::istringstream fields(text->substr(std::min(text->rfind(')') + 1, text->size())));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace

std::chrono::milliseconds age_of(const ProcessMark& mark) {
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const auto now_ms = static_cast<std::int64_t>(up.tv_sec) * 1000 + up.tv_nsec / 1'000'000;
  const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const auto begun_ms = static_cast<std::int64_t>(mark.start_ticks * 1000 / ticks_a_second);
  return std::chrono::milliseconds(std::max<std::int64_t>(now_ms - begun_ms, 0));
}

Result<WorkerProcess> WorkerProcess::start(const WorkerStart& start, const Cgroups& cgroups) {
  TRY_ASSIGN(const Fd order, sealed_text("order", encode_order(start.order)));
  TRY_ASSIGN(const Fd request, sealed_text("request", start.request));
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe started, make_pipe());
  TRY_ASSIGN(Pipe log, make_pipe());
  const int status_fd = start.status_fd >= 0 ? start.status_fd : null.get();
  const int directory_fd = start.directory_fd >= 0 ? start.directory_fd : null.get();
  // With write access, a worker could change every worker's rate and admit itself.
  TRY_ASSIGN(const Fd rate, for_reading(start.rate_fd));
  TRY_ASSIGN(const Fd answer, for_reading(start.answer_fd));

  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    const Status placed =
        place_descriptors({null.get(), log.write.get(), log.write.get(), order.get(), request.get(),
                           status_fd, directory_fd, rate.get(), answer.get(), started.write.get()});
    if (!placed) ::_exit(126);
    const Status fault = become_worker(start, cgroups);
    static_cast<void>(!write_all(k_started_fd, fault.error().what));
    ::_exit(127);
  }
  WorkerProcess process;
  process.child_ = true;
  process.mark_ = {pid, start_ticks_of(pid)};
  auto pid_fd = open_pid(pid);
  process.started_ = std::move(started.read);
  process.log_ = std::move(log.read);
  ::fcntl(process.log_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(process.started_.get(), F_SETFL, O_NONBLOCK);
  if (!pid_fd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return pid_fd.error();
  }
  process.pid_fd_ = std::move(*pid_fd);
  return process;
}

std::optional<WorkerProcess> WorkerProcess::adopt(const ProcessMark& mark) {
  if (mark.pid <= 0) return {};
  WorkerProcess process;
  process.mark_ = mark;
  auto pid_fd = open_pid(mark.pid);
  if (!pid_fd) return {};
  process.pid_fd_ = std::move(*pid_fd);
  if (start_ticks_of(mark.pid) != mark.start_ticks) return {};
  return process;
}

std::string WorkerProcess::read_start_fault() {
  const auto text = read_all(started_.get(), 4096);
  started_.reset();
  return text ? *text : text.error().what;
}

void WorkerProcess::kill() const {
  ::syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
}

std::string WorkerProcess::reap() {
  if (!child_) return "ended";
  int status = 0;
  // Never blocks: the kernel reports a traced child to its tracer first, and the daemon would wait
  // until the tracer exits.
  if (::waitpid(mark_.pid, &status, WNOHANG) != mark_.pid) return "ended";
  child_ = false;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGSYS) return "was killed by SIGSYS: it made a system call that no worker makes";
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "ended with code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace nodestage
