// `nodestage recover`: held results go where their user says.
#include <climits>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/hold.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "daemon/root/jobs/worker_orders.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_progress_pause{1};

bool is_usable(const std::string& directory) {
  return directory.starts_with('/') && directory.size() < PATH_MAX &&
         directory.find('\0') == std::string::npos;
}

Message several(const std::vector<JobKey>& keys) {
  std::string names;
  for (const JobKey& key : keys) names += (names.empty() ? "" : ", ") + to_text(key);
  return Refused{RefusalReason::busy, "several runs of this job are held; name one: " + names};
}

}  // namespace

std::vector<JobKey> Jobs::find_held(const Recover& ask) const {
  std::vector<JobKey> keys;
  for (const auto& [key, job] : jobs_) {
    const bool meant =
        key.job == ask.job && (ask.restart == k_no_number || ask.restart == key.restart);
    if (meant && job.record.hold.since != 0) keys.push_back(key);
  }
  return keys;
}

std::optional<std::uint32_t> Jobs::owner_of_held(const Recover& ask) const {
  const auto keys = find_held(ask);
  if (keys.empty()) return {};
  return jobs_.at(keys.front()).record.begin.uid;
}

Ticket Jobs::recover_held(const Recover& ask, const Reply& reply) {
  const auto refuse = [&reply](RefusalReason reason, const std::string& what) -> Ticket {
    reply(Refused{reason, what});
    return 0;
  };
  if (!is_usable(ask.directory))
    return refuse(RefusalReason::malformed, "the directory must be an absolute path");
  const auto keys = find_held(ask);
  if (keys.empty()) return refuse(RefusalReason::unknown_job, "no results of this job are held");
  if (keys.size() > 1) {
    reply(several(keys));
    return 0;
  }
  Job& job = jobs_.at(keys.front());
  const bool can_start = job.record.state == JobState::held || job.worker;
  if (job.recovery || job.is_leaving || !can_start)
    return refuse(RefusalReason::busy, "the results of this job are being recovered or let go now");
  const Ticket ticket = next_ticket_++;
  job.recovery = Recovery{ticket, reply, ask.directory, {}, {}};
  log::info(about(job.record), "recovery to {} begins", printable(ask.directory));
  tell_recovery(keys.front());
  // A try that is under way may hang, so it makes way; its end comes back through look_after().
  if (job.worker) {
    at_.workers.kill(*job.worker);
  } else {
    queue_recovery(job);
  }
  return job.recovery ? ticket : 0;
}

void Jobs::queue_recovery(Job& job) {
  recoveries_.ask(job.record.begin.uid, job.record.key(),
                  [this, key = job.record.key()] { return start_recovery(key); });
}

Turns::Begun Jobs::start_recovery(const JobKey& key) {
  Job* found = find(key);
  if (found == nullptr || !found->recovery || found->record.state != JobState::held)
    return Turns::Begun::no;
  Job& job = *found;
  const auto start = [&]() -> Result<Workers::Id> {
    TRY_ASSIGN(const Fd tree, files_.directory(job.record));
    TRY_ASSIGN(const Fd status, files_.new_status(key, WorkerTask::recover));
    WorkerStart order = order_of(job, WorkerTask::recover);
    order.order.recover_to = job.recovery->directory;
    order.directory_fd = tree.get();
    order.status_fd = status.get();
    // A name of its own each: an earlier one may be stuck in the kernel.
    order.cgroup += "." + std::to_string(job.recovery->ticket);
    return at_.workers.start(
        order, {job.record.begin.cpus, at_.config.worker.memory_bytes, at_.config.worker.pids},
        limits_of(WorkerTask::recover, at_.config), about(job.record, "worker"),
        [this, key](const WorkerEnd& end) { recovery_ended(key, end); });
  };
  const auto id = start();
  if (!id) {
    log::error(about(job.record), "recovery could not be started: {}", id.error().what);
    answer_recovery(job, Refused{RefusalReason::fault, id.error().what});
    return Turns::Begun::failed;
  }
  job.recovery->worker = *id;
  return Turns::Begun::yes;
}

// That it still goes on, and how far it is.
void Jobs::tell_recovery(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || !job->recovery) return;
  job->recovery->timer = at_.loop.after(k_progress_pause, [this, key] { tell_recovery(key); });
  if (!job->recovery->reply) return;
  Progress progress;
  if (job->recovery->worker) progress = progress_of(worker_status(*job, WorkerTask::recover));
  job->recovery->reply(progress);
}

void Jobs::recovery_ended(const JobKey& key, const WorkerEnd& end) {
  Job* job = find(key);
  if (job == nullptr || !job->recovery) return;
  const WorkerStatus status = worker_status(*job, WorkerTask::recover);
  const std::vector<std::string> lines = delivery_lines(status);
  log_items(job->record, "recovery: ", status, lines);
  if (status.phase == WorkerPhase::done) {
    tell_user(*job, recovered_notice(job->record, job->recovery->directory), [](Notices::Told) {});
    job->parting = "the results were recovered to " + job->recovery->directory;
    answer_recovery(*job, Recovered{lines});
    return finish(*job);
  }
  const std::string cause =
      status.phase == WorkerPhase::failed ? status.cause : "the process " + end.text;
  log::warn(about(job->record), "recovery failed, the results stay: {}", cause);
  answer_recovery(*job, Refused{RefusalReason::fault, printable(cause, Newlines::keep)});
  set_hold_timer(*job);
}

// The last answer, if there is somebody who waits for it.
void Jobs::answer_recovery(Job& job, const Message& message) {
  const auto recovery = std::exchange(job.recovery, {});
  if (!recovery) return;
  if (recovery->timer) at_.loop.cancel(*recovery->timer);
  if (recovery->reply) recovery->reply(message);
  recoveries_.end(job.record.begin.uid, job.record.key());
}

void Jobs::leave_recovery(Ticket ticket) {
  for (auto& item : jobs_) {
    auto& recovery = item.second.recovery;
    if (!recovery || recovery->ticket != ticket) continue;
    log::info(about(item.second.record), "recovery is given up, its caller went away");
    recovery->reply = nullptr;
    if (recovery->worker) return at_.workers.kill(*recovery->worker);
    return answer_recovery(item.second, Accepted{});
  }
}

}  // namespace nodestage
