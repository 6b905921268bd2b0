#include "cli/process/worker_child.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/build_info.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_log = 64 * 1024;

Result<Fd> memory_file(const char* name) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return system_error("memfd_create");
  return fd;
}

// A user's process can have inheritable capabilities, with which the worker refuses to run.
void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  ::syscall(SYS_capset, &header, none);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NODESTAGE_IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NODESTAGE_IS_SANITIZED
#endif
#endif

// As much as the daemon's workers get by default, which have a cgroup for it. What is only reserved
// does not count. A sanitizer takes terabytes.
void bound_memory() {
#ifndef NODESTAGE_IS_SANITIZED
  constexpr rlim_t k_most = rlim_t{4} << 30;
  rlimit data{};
  if (::getrlimit(RLIMIT_DATA, &data) != 0 || data.rlim_cur <= k_most) return;
  data.rlim_cur = k_most;
  ::setrlimit(RLIMIT_DATA, &data);
#endif
}

// Leaves the group. What that received before was for the parent.
void leave_group() {
  ::setsid();
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    ::sigaction(signal, &ignored, nullptr);
}

// Runs in the child, up to execve. Returns only with a fault.
Status become_worker(const std::string& program, pid_t parent) {
  leave_group();
  TRY(reset_process());
  drop_capabilities();
  bound_memory();
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("no_new_privs");
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    return Error{ESRCH, "its parent has exited"};
  return exec_worker(program);
}

}  // namespace

std::string worker_program() {
  std::string place = link_text(AT_FDCWD, "/proc/self/exe");
  if (!place.empty()) {
    for (int up = 0; up < 2; ++up) place.resize(std::min(place.rfind('/'), place.size()));
    place += "/libexec/nodestage/nodestage-worker";
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  return k_worker_path;
}

Result<WorkerChild> WorkerChild::start(const WorkerCall& call) {
  WorkerChild child;
  child.task_ = task_of(call.order);
  TRY_ASSIGN(child.status_, memory_file("status"));
  TRY_ASSIGN(child.log_, memory_file("log"));
  TRY_ASSIGN(const Fd order, sealed_text("order", encode_order(call.order)));
  TRY_ASSIGN(const Fd request, sealed_text("request", call.request));
  TRY_ASSIGN(const Fd rate, sealed_text("rate", std::string(8, '\0')));
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe started, make_pipe());
  const pid_t parent = ::getpid();
  const auto descriptors = worker_descriptors(null.get(), child.log_.get(),
                                              {{k_worker_order_fd, order.get()},
                                               {k_worker_request_fd, request.get()},
                                               {k_worker_status_fd, child.status_.get()},
                                               {k_worker_directory_fd, call.directory_fd},
                                               {k_worker_rate_fd, rate.get()},
                                               {k_worker_delivered_fd, call.delivered_fd},
                                               {k_worker_memory_fd, call.memory_fd},
                                               {k_worker_started_fd, started.write.get()}},
                                              call.fuse_fds);
  const auto body = [&] {
    const Status placed = place_descriptors(descriptors);
    if (!placed) return 126;
    const Status fault = become_worker(call.program, parent);
    static_cast<void>(!write_all(k_worker_started_fd, fault.error().text()));
    return 127;
  };
  TRY_ASSIGN(child.child_, ChildProcess::start(Orphan::killed, body));
  started.write.reset();
  TRY_ASSIGN(const std::string fault, read_all(started.read.get(), 4096));
  if (!fault.empty()) return Error{ENOENT, fault};
  return child;
}

bool WorkerChild::has_ended() {
  if (const auto status = child_.reap()) wait_status_ = *status;
  return !child_;
}

// When the worker dies, its builder (daemon/worker/venv/builder.hpp) kills what it runs; as a
// subreaper, this process waits for those, too. A worker that serves has none, and runs beside
// others.
void WorkerChild::kill() {
  if (!child_) return;
  if (task_ == WorkerTask::serve) {
    child_.signal(SIGKILL);
    wait_status_ = child_.wait().value_or(wait_status_);
    return;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  child_.signal(SIGKILL);
  wait_status_ = child_.wait().value_or(wait_status_);
  constexpr int k_most_looks = 500;
  for (int i = 0; i < k_most_looks && ::waitpid(-1, nullptr, WNOHANG) >= 0; ++i)
    ::poll(nullptr, 0, 10);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::string WorkerChild::last_words() const {
  std::string text = "it exited with code " + std::to_string(WEXITSTATUS(wait_status_));
  if (WIFSIGNALED(wait_status_))
    text = std::string("it was killed by a signal: ") + ::strsignal(WTERMSIG(wait_status_));
  ::lseek(log_.get(), 0, SEEK_SET);
  auto log = read_all(log_.get(), k_max_log);
  if (!log) return text;
  while (log->ends_with('\n')) log->pop_back();
  std::string last = log->substr(log->rfind('\n') + 1);
  if (last.starts_with(k_error_mark)) last.erase(0, std::strlen(k_error_mark));
  return last.empty() ? text : text + " (" + last + ")";
}

namespace {

constexpr std::chrono::milliseconds k_call_off_interval{200};

void show(const WorkerChild& worker, TaskVoice& voice, Deadline begun) {
  const auto status = worker.status();
  if (!status) return;
  Progress progress = progress_of(*status, Counted::all);
  progress.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count());
  voice.progress(progress);
}

}  // namespace

std::optional<WorkerStop> watch_worker(WorkerChild& worker, Signals& signals, TaskVoice& voice,
                                       const std::function<bool()>& is_called_off,
                                       const std::function<void()>& before_kill) {
  const auto begun = Clock::now();
  auto interval = voice.report_interval();
  if (is_called_off) interval = std::min(interval, k_call_off_interval);
  const auto stop = [&](int signal) {
    if (before_kill) before_kill();
    worker.kill();
    voice.clear();
    return WorkerStop{signal};
  };
  while (!worker.has_ended()) {
    const auto signal = signals.next(interval);
    if (signal && is_deadly(*signal)) return stop(*signal);
    if (is_called_off && is_called_off()) return stop(0);
    if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
    if (!signal) show(worker, voice, begun);
  }
  voice.clear();
  return {};
}

Result<WorkerStatus> end_of_worker(const WorkerChild& worker, WorkerTask task) {
  TRY_ASSIGN(WorkerStatus status, worker.status());
  const bool is_of_outputs = task == WorkerTask::stage_out || task == WorkerTask::push;
  const bool has_items = is_of_outputs && !status.items.empty();
  if (status.phase == WorkerPhase::done || (status.phase == WorkerPhase::failed && has_items))
    return status;
  if (!status.cause.empty()) return Error{0, status.cause};
  return Error{0, "nodestage-worker failed: " + worker.last_words(),
               "Try again; if it happens again, tell your administrators."};
}

Error cannot_start_worker(const Error& fault) {
  return {0, "nodestage-worker cannot be started: " + fault.text(),
          "Is nodestage installed completely? The worker's path, relative to this command, is "
          "../libexec/nodestage."};
}

}  // namespace nodestage
