#include "daemon/root/workers/worker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/os/process_start.hpp"
#include "daemon/root/workers/job_cgroup.hpp"

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
  if (!start.job_cgroup.empty() && !enter_job_cgroup(start.job_cgroup)) {
    const int code = errno;
    const bool is_gone = code == ENOENT || code == ENODEV;
    return Error{code, is_gone ? std::string(WorkerProcess::k_step_gone)
                               : "the job's memory cgroup cannot be entered: " + start.job_cgroup};
  }
  TRY(reset_process());
  if (::access(start.program.c_str(), X_OK) != 0) return system_error(start.program);
  const OrderHead& order = head_of(start.order);
  if (order.uid == 0 && std::holds_alternative<RemoveOrder>(start.order)) {
    TRY(become_remover());
  } else {
    TRY(become({order.uid, order.gid, order.user}, start.groups));
  }
  return exec_worker(start.program);
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
  const auto or_null = [&null](int fd) { return fd >= 0 ? fd : null.get(); };
  // With write access, a worker could change every worker's rate and admit itself.
  TRY_ASSIGN(const Fd rate, for_reading(start.rate_fd));
  TRY_ASSIGN(const Fd answer, for_reading(start.answer_fd));

  WorkerProcess process;
  const auto body = [&] {
    const Status placed = place_descriptors(
        {null.get(), log.write.get(), log.write.get(), order.get(), request.get(),
         or_null(start.status_fd), or_null(start.directory_fd), rate.get(), answer.get(),
         or_null(start.delivered_fd), or_null(start.board_fd), or_null(start.spool_fd),
         or_null(start.memory_fd), or_null(start.sources_fd), started.write.get()});
    if (!placed) return 126;
    const Status fault = become_worker(start, cgroups);
    static_cast<void>(!write_all(k_started_fd, fault.error().what));
    return 127;
  };
  TRY_ASSIGN(process.child_, ChildProcess::start(Orphan::left, body));
  const pid_t pid = process.child_.pid();
  process.mark_ = {pid, start_ticks_of(std::to_string(pid))};
  auto pid_fd = open_pid(pid);
  process.started_ = std::move(started.read);
  process.log_ = std::move(log.read);
  ::fcntl(process.log_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(process.started_.get(), F_SETFL, O_NONBLOCK);
  if (!pid_fd) {
    process.child_.signal(SIGKILL);
    static_cast<void>(process.child_.wait());
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
  if (start_ticks_of(std::to_string(mark.pid)) != mark.start_ticks) return {};
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
  const auto status = child_.reap();
  if (!status) return "ended";
  if (WIFSIGNALED(*status)) {
    const int signal = WTERMSIG(*status);
    if (signal == SIGSYS) return "was killed by SIGSYS: it made a system call that no worker makes";
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "ended with code " + std::to_string(WEXITSTATUS(*status));
}

}  // namespace nodestage
