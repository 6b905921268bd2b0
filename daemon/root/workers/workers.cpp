#include "daemon/root/workers/workers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

// Reads that of a child that was not waited for, so of no other process.
std::optional<std::chrono::nanoseconds> processor_time(int pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// A worker has its user's rights: neither its lines nor their number are trusted.
constexpr unsigned k_max_log_lines = 200;
constexpr std::size_t k_max_log_line = 1000;
constexpr std::chrono::milliseconds k_look_again{100};

template <typename All>
bool is_used(const std::string& cgroup, const All& workers) {
  return std::any_of(workers.begin(), workers.end(),
                     [&cgroup](const auto& item) { return item.second.cgroup == cgroup; });
}

// One that cannot be killed keeps its cgroup. Another of the same task of a job would be killed
// with it there.
template <typename All>
std::string unused_cgroup(const std::string& wanted, const All& workers) {
  std::string name = wanted;
  for (int number = 2; is_used(name, workers); ++number)
    name = wanted + "-" + std::to_string(number);
  return name;
}

// Returns the name of the cgroup that a worker is in; none if it is in no worker's.
std::optional<std::string> cgroup_of_worker(pid_t pid) {
  constexpr std::size_t k_most = 1 << 16;
  const std::string before = "/" + std::string(k_worker_cgroup);
  const auto text = read_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/cgroup", k_most);
  if (!text) return {};
  for (const auto& [controller, path] : cgroups_in(*text)) {
    const std::size_t at = path.rfind(before);
    if (at != std::string::npos) return path.substr(at + before.size());
  }
  return {};
}

std::string limit_text(std::chrono::seconds limit) {
  return human_duration(static_cast<std::uint64_t>(limit.count()) * 1000);
}

bool has_exited(const WorkerProcess& process) {
  pollfd exit{process.pid_fd(), POLLIN, 0};
  return ::poll(&exit, 1, 0) > 0;
}

void log_line(const Subject& subject, std::string_view line) {
  if (!line.starts_with(k_error_mark))
    return log::info(subject, "{}", line.substr(0, k_max_log_line));
  line.remove_prefix(std::string_view(k_error_mark).size());
  log::error(subject, "{}", line.substr(0, k_max_log_line));
}

}  // namespace

Result<Workers::Id> Workers::start(const WorkerStart& wanted, const CgroupLimits& resources,
                                   const Limits& limits, Subject subject, OnEnd on_end) {
  WorkerStart start = wanted;
  start.cgroup = unused_cgroup(wanted.cgroup, workers_);
  static_cast<void>(cgroups_.kill(start.cgroup));  // an earlier daemon's, not recorded yet
  TRY(cgroups_.create(start.cgroup, resources));
  const std::uint64_t kills_before =
      start.job_cgroup.empty() ? 0 : out_of_memory_kills(start.job_cgroup);
  auto process = WorkerProcess::start(start, cgroups_);
  if (!process) {
    remove_cgroup(start.cgroup, 0);
    return std::move(process.error());
  }
  const Id id = add({.process = std::move(*process),
                     .cgroup = start.cgroup,
                     .subject = std::move(subject),
                     .on_end = std::move(on_end),
                     .limits = limits,
                     .job_cgroup = start.job_cgroup,
                     .kills = kills_before,
                     .is_jobs_memory = resources.is_jobs_memory});
  Worker& worker = workers_.at(id);
  TRY(watch(id));
  if (Status told = loop_.watch(worker.process.started_fd(), [this, id] { started(id); }); !told) {
    worker.on_end = nullptr;
    kill(id);  // ended() follows
    return told.error();
  }
  set_timer(worker, limits.start, [this, id, limit = limits.start] {
    give_up(id, {WorkerEnd::Kind::not_started, "the user's groups could not be resolved within " +
                                                   limit_text(limit) +
                                                   " (does the node's name service answer?)"});
  });
  return id;
}

std::optional<Workers::Id> Workers::adopt(const ProcessMark& mark, const std::string& cgroup,
                                          const Limits& limits, Subject subject, OnEnd on_end) {
  auto process = WorkerProcess::adopt(mark);
  if (!process) return {};
  const Id id = add({.process = std::move(*process),
                     .cgroup = cgroup_of_worker(mark.pid).value_or(cgroup),
                     .subject = std::move(subject),
                     .on_end = std::move(on_end),
                     .limits = limits});
  if (!watch(id)) return {};
  set_run_limit(id);
  return id;
}

Workers::Id Workers::add(Worker worker) {
  workers_.emplace(next_, std::move(worker));
  return next_++;
}

// One that cannot be watched is killed, and nobody hears of its end.
Status Workers::watch(Id id) {
  struct Reaper {
    Workers& workers;
    Id id;
    void operator()() const {
      if (has_exited(workers.workers_.at(id).process)) return workers.ended(id);
      workers.loop_.after(k_look_again, *this);
    }
  };
  Worker& worker = workers_.at(id);
  Status watched = loop_.watch(worker.process.pid_fd(), [this, id] { ended(id); });
  const bool is_seen = static_cast<bool>(watched);
  if (watched && worker.process.log_fd() >= 0)
    watched = loop_.watch(worker.process.log_fd(), [this, id] { read_log(id); });
  if (watched) return {};
  worker.on_end = nullptr;
  kill(id);
  if (!is_seen) loop_.after(k_look_again, Reaper{*this, id});
  return watched;
}

void Workers::set_timer(Worker& worker, std::chrono::seconds delay, Loop::Callback due) {
  loop_.cancel(worker.timer);
  worker.timer = loop_.after(delay, std::move(due));
}

void Workers::started(Id id) {
  Worker& worker = workers_.at(id);
  loop_.forget(worker.process.started_fd());
  if (const Status fault = worker.process.read_start_fault(); !fault) {
    const bool is_gone = fault.error().code == WorkerProcess::k_step_gone;
    worker.verdict = WorkerEnd{is_gone ? WorkerEnd::Kind::step_gone : WorkerEnd::Kind::not_started,
                               fault.error().what};
    return;  // it exits by itself
  }
  if (worker.verdict) return;
  set_run_limit(id);
  if (worker.limits.idle.count() > 0) watch_use(id);
}

void Workers::watch_use(Id id) {
  Worker& worker = workers_.at(id);
  worker.used = processor_time(worker.process.mark().pid).value_or(worker.used);
  worker.idle_timer = loop_.after(worker.limits.idle, [this, id] { look_at_use(id); });
}

// It has its user's rights, so the user can stop it, too.
void Workers::look_at_use(Id id) {
  Worker& worker = workers_.at(id);
  worker.idle_timer.reset();
  if (worker.verdict) return;
  const auto used = processor_time(worker.process.mark().pid);
  if (!used || *used != worker.used) return watch_use(id);
  give_up(id,
          {WorkerEnd::Kind::over_limit, "came no further for " + limit_text(worker.limits.idle)});
}

void Workers::read_log(Id id) {
  Worker& worker = workers_.at(id);
  char block[4096];
  const ssize_t count = ::read(worker.process.log_fd(), block, sizeof block);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    loop_.forget(worker.process.log_fd());
    return;
  }
  worker.log_rest.append(block, static_cast<std::size_t>(count));
  for (std::size_t end = 0; (end = worker.log_rest.find('\n')) != std::string::npos;) {
    if (++worker.log_lines <= k_max_log_lines)
      log_line(worker.subject, worker.log_rest.substr(0, end));
    if (worker.log_lines == k_max_log_lines + 1)
      log_line(worker.subject, "(more lines are not logged)");
    worker.log_rest.erase(0, end + 1);
  }
  if (worker.log_rest.size() > k_max_log_line) worker.log_rest.resize(k_max_log_line);
}

void Workers::set_run_limit(Id id) {
  Worker& worker = workers_.at(id);
  set_timer(worker, worker.limits.run, [this, id, limit = worker.limits.run] {
    give_up(id,
            {WorkerEnd::Kind::over_limit, "took longer than the limit of " + limit_text(limit)});
  });
}

void Workers::give_up(Id id, WorkerEnd verdict) {
  workers_.at(id).verdict = std::move(verdict);
  kill(id);
}

void Workers::kill(Id id) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  if (!cgroups_.kill(worker.cgroup)) worker.process.kill();
  worker.process.kill();
  set_timer(worker, worker.limits.kill, [this, id] {
    log::error(workers_.at(id).subject,
               "cannot be killed and is left behind, blocked in the kernel");
    report(id, {WorkerEnd::Kind::stuck,
                "hangs in the kernel and cannot be killed: a file system does not answer"});
  });
}

ProcessMark Workers::mark(Id id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? ProcessMark{} : found->second.process.mark();
}

std::vector<pid_t> Workers::pids() const {
  std::vector<pid_t> pids;
  for (const auto& [id, worker] : workers_) pids.push_back(worker.process.mark().pid);
  return pids;
}

void Workers::ended(Id id) {
  Worker& worker = workers_.at(id);
  if (worker.process.started_fd() >= 0) started(id);
  if (worker.process.log_fd() >= 0) read_log(id);
  loop_.forget(worker.process.log_fd());
  loop_.forget(worker.process.pid_fd());
  WorkerEnd end = worker.process.reap();
  const WorkerEnd at_limit_of_job{WorkerEnd::Kind::job_memory,
                                  "was killed at the memory limit of the job"};
  const WorkerEnd at_own_limit{WorkerEnd::Kind::no_memory,
                               "ran out of memory (worker.memory in nodestaged.toml)"};
  if (cgroups_.ran_out_of_memory(worker.cgroup))
    end = worker.is_jobs_memory ? at_limit_of_job : at_own_limit;
  // One that stopped by itself had no lack of it: another process of the job was killed.
  if (!worker.job_cgroup.empty() && end.kind == WorkerEnd::Kind::killed &&
      out_of_memory_kills(worker.job_cgroup) > worker.kills)
    end = at_limit_of_job;
  static_cast<void>(cgroups_.kill(worker.cgroup));  // children that it left behind
  remove_cgroup(worker.cgroup, 50);
  report(id, worker.verdict.value_or(end));
  workers_.erase(id);
}

// Reports to the owner, once.
void Workers::report(Id id, const WorkerEnd& end) {
  Worker& worker = workers_.at(id);
  loop_.cancel(worker.timer);
  loop_.cancel(worker.idle_timer);
  const OnEnd on_end = std::exchange(worker.on_end, nullptr);
  if (on_end) on_end(end);
}

void Workers::remove_cgroup(const std::string& name, int tries_left) {
  if (cgroups_.remove(name) || tries_left == 0) return;
  // By then, a worker of that name can be about to enter it.
  loop_.after(std::chrono::milliseconds(100), [this, name, tries_left] {
    if (!is_used(name, workers_)) remove_cgroup(name, tries_left - 1);
  });
}

void Workers::kill_orphaned_workers() {
  for (const std::string& name : cgroups_.list()) {
    // Without a process: its worker exited while there was no daemon.
    if (is_used(name, workers_) || cgroups_.remove(name)) continue;
    log::warn("killing a worker that belongs to no job: cgroup {}", name);
    static_cast<void>(cgroups_.kill(name));
    remove_cgroup(name, 50);
  }
}

namespace {

constexpr std::uint32_t k_nobody = 65534;
constexpr std::chrono::seconds k_limit{60};

SandboxState state_of(const WorkerStatus& status, const WorkerEnd& end) {
  const std::string text = printable(status.cause, Newlines::join);
  if (status.phase == WorkerPhase::done)
    return {text.empty() ? SandboxState::Kind::holds : SandboxState::Kind::lacking, text};
  if (status.phase == WorkerPhase::failed) return {SandboxState::Kind::fault, text};
  return {SandboxState::Kind::fault, "the process that tried it " + end.text};
}

void log_state(const SandboxState& state, SandboxNeed need) {
  const char* required = need == SandboxNeed::required
                             ? "; worker.sandbox requires it: jobs that stage fail on this node"
                             : "";
  switch (state.kind) {
    case SandboxState::Kind::unknown:
    case SandboxState::Kind::holds:
      return log::info("workers can confine themselves");
    case SandboxState::Kind::lacking:
      return log::warn("this kernel does not confine workers in full: {}{}", state.text, required);
    case SandboxState::Kind::fault:
      return log::error("workers cannot enter their sandbox: {}{}", state.text, required);
  }
}

}  // namespace

void probe_sandbox(Workers& workers, const Config& config, const std::string& directory,
                   const std::function<void(const SandboxState&)>& on_found) {
  const auto status = std::make_shared<Fd>(::memfd_create("probe", MFD_CLOEXEC));
  const auto place = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  WorkerStart start;
  start.program = config.daemon.worker_path;
  start.cgroup = "probe";
  start.groups = Groups::primary;
  start.status_fd = status->get();
  start.directory_fd = place ? place->get() : -1;
  ProbeOrder order;
  order.uid = order.gid = k_nobody;
  start.order = order;
  Workers::Limits limits;
  limits.run = k_limit;
  const auto on_end = [&config, status, on_found](const WorkerEnd& end) {
    const auto reported = read_worker_status(status->get());
    const SandboxState state = state_of(reported ? *reported : WorkerStatus{}, end);
    log_state(state, config.worker.sandbox);
    on_found(state);
  };
  const auto begun = workers.start(start, {1, config.worker.memory_bytes, config.worker.pids},
                                   limits, Subject{{}, {}, "worker", "sandbox"}, on_end);
  if (!begun)
    log::error("the test whether workers can confine themselves could not start: {}",
               begun.error().what);
}

}  // namespace nodestage
