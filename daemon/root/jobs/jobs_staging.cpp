// From the job directory to ready or failed.
#include <unistd.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_directory_poll{200};
constexpr std::uint32_t k_smallest_interval_ms = 100;
constexpr std::uint64_t k_waiter_share_ms = 10;

// Of the item that the job fails for; "" when it is none.
// Others end as failed, too, as they are stopped; the cause is "NAME: " and the item's own note.
std::string failed_source(const WorkerStatus& status) {
  for (const ItemRecord& item : status.items) {
    const std::string note = field_text(item.note);
    if (static_cast<ItemState>(item.state) == ItemState::failed && !note.empty() &&
        status.cause.find(": " + note) != std::string::npos)
      return field_text(item.source);
  }
  return {};
}

}  // namespace

// tmpdir.create = "never": a Prolog script of the site makes it after the SPANK prolog.
void Jobs::seek_directory(const JobKey& key, Clock::time_point give_up) {
  Job* job = find(key);
  if (job == nullptr || job->record.state != JobState::waiting_for_directory) return;
  const auto directory = at_.areas.open_directory(job->record.directory, job->record.begin.uid,
                                                  mounts_of(job->record));
  if (directory && *directory) return enqueue(*job);
  // A fault too may pass: between the site's mkdir and its chown it is root's.
  if (Clock::now() >= give_up) {
    if (!directory) return fail(*job, FailureCause::directory, directory.error().what);
    return fail(*job, FailureCause::directory,
                at_.areas.path_of(job->record.directory) +
                    ": the site's Prolog has not made this " + "directory within " +
                    human_duration(at_.config.tmpdir.wait_s * 1000) +
                    "\nTell your administrators (tmpdir.create = \"never\" in nodestaged.toml).");
  }
  at_.loop.after(k_directory_poll, [this, key, give_up] { seek_directory(key, give_up); });
}

void Jobs::enqueue(Job& job) {
  if (job.record.begin.request.empty()) {
    set_state(job, JobState::ready);
    return tell_waiters(job);
  }
  set_state(job, JobState::queued);
  queue_.push(job.record.key(), job.record.begin.uid);
  start_queued();
}

void Jobs::start_queued() {
  while (staging_now() < at_.config.staging.max_jobs) {
    const auto next = queue_.next(places_by_user(), places_of_one_user());
    if (!next) break;
    queue_.erase(*next);
    Job* job = find(*next);
    if (job == nullptr || job->record.state != JobState::queued) continue;
    if (const Status started = start_worker(*job, WorkerTask::stage); !started) {
      fail(*job, FailureCause::start,
           "staging could not be started: " + started.error().what +
               "\nTell your administrators: the log of nodestaged on this node says more.");
      continue;
    }
    set_state(*job, JobState::staging);
  }
  share_rate();
}

void Jobs::staging_ended(const JobKey& key, const WorkerEnd& end) {
  Job* job = find(key);
  if (job == nullptr) return;
  count_work(*job);
  job->worker.reset();
  job->record.worker = {};
  const bool lacks_space = desk_.close(key);
  const WorkerStatus status = worker_status(*job, WorkerTask::stage);
  const FailureCause why = lacks_space ? FailureCause::space : cause_of(end, status);
  if (status.phase == WorkerPhase::done)
    log_items(job->record, "staged: ", status, summary_lines(status));
  if (job->record.ended) {
    begin_stage_out(*job);
  } else if (job->record.state == JobState::failed) {  // for the journal's sake, meanwhile
    save(*job);
  } else if (status.phase == WorkerPhase::failed) {
    fail(*job, why, status.cause, failed_source(status));
  } else if (status.phase != WorkerPhase::done && job->record.state == JobState::ready) {
    log::warn(about(job->record), "the worker {} before its async items were staged", end.text);
    job->async_fault = "the staging process " + end.text + " before it was staged";
    save(*job);
  } else if (status.phase != WorkerPhase::done && end.kind == WorkerEnd::Kind::over_limit) {
    fail(*job, why,
         "the staging " + end.text +
             " and was ended\nAsk for less data, or ask your administrators (staging.limit in "
             "nodestaged.toml on this node).");
  } else if (status.phase != WorkerPhase::done && end.kind == WorkerEnd::Kind::no_memory) {
    fail(*job, why,
         "the staging process " + end.text +
             "\nPack the data so that less is needed to unpack them (xz -6, zstd without "
             "--long), or "
             "ask your administrators.");
  } else if (status.phase != WorkerPhase::done) {
    const bool started = end.kind != WorkerEnd::Kind::not_started;
    fail(*job, why,
         (started ? "the staging process " + end.text + " before it was done"
                  : "the staging process could not be started: " + end.text) +
             "\nSubmit again; if it happens again tell your administrators: the log of "
             "nodestaged on "
             "this node says more.");
  } else if (job->record.state != JobState::ready) {
    set_state(*job, JobState::ready);
    tell_waiters(*job);
  }
  start_queued();
}

// Every staging worker gets the same share of the node's rate.
void Jobs::share_rate() const {
  const std::uint64_t rate = at_.config.read.max_rate_bytes;
  const std::uint64_t share =
      rate == 0 ? 0 : std::max<std::uint64_t>(1, rate / std::max<std::size_t>(1, staging_now()));
  if (::pwrite(at_.rate_fd, &share, sizeof share, 0) != sizeof share) {
    log::error("the rate file cannot be written");
  }
}

// `item`: the source of the one that failed, where there is one.
void Jobs::fail(Job& job, FailureCause why, const std::string& cause, const std::string& item) {
  counters_.add_failure(Activity::stage, why);
  job.record.cause = printable(cause, Newlines::keep);
  job.record.failure = job.record.cause;
  log::warn(about_item(job.record, item), "staging failed: {}", cause);
  set_state(job, JobState::failed);
  tell_waiters(job);
}

Ticket Jobs::wait(const Wait& wait, Reply reply) {
  Job* job = find_live(wait.job);
  if (job == nullptr) {
    reply(Refused{RefusalReason::unknown_job,
                  "the staging daemon knows nothing of this job: its prolog has not reached it"});
    return 0;
  }
  if (wait.goes_on == k_looks || wait.goes_on == k_looked) {
    const JobKey key = job->record.key();
    wait.goes_on == k_looks ? credits_.begin_look(key, wait.step)
                            : credits_.end_look(key, wait.step);
    tell_use(*job);
    reply(Accepted{});
    return 0;
  }
  learn(*job, wait);
  if (wait.goes_on != 0 && job->record.times.run == 0) {
    job->record.may_have_run = true;
    job->record.times.run = wall_ms();
    save(*job);
    tell_use(*job);
  }
  const JobKey key = job->record.key();
  const Ticket ticket = next_ticket_++;
  job->waiters.emplace(ticket, Waiter{std::move(reply),
                                      std::max(wait.interval_ms, k_smallest_interval_ms),
                                      wait.speaks != 0,
                                      wait.scope,
                                      {}});
  tick(key, ticket);
  job = find(key);
  return job->waiters.count(ticket) > 0 ? ticket : 0;
}

// Answers one waiter, or tells it how far things are and comes again.
void Jobs::tick(const JobKey& key, Ticket ticket) {
  Job* job = find(key);
  if (job == nullptr) return;
  notice_ready(*job);
  tell_waiters(*job);
  const auto found = job->waiters.find(ticket);
  if (found == job->waiters.end()) return;
  Waiter& waiter = found->second;
  if (waiter.names) {
    if (const auto word = word_on(*job, *waiter.names)) {
      waiter.reply(*word);
      job->waiters.erase(found);
      return;
    }
  }
  // A crowd of waiters is told less often: each time the status file is read for it.
  const auto pause =
      std::max<std::uint64_t>(waiter.interval_ms, k_waiter_share_ms * job->waiters.size());
  waiter.timer =
      at_.loop.after(std::chrono::milliseconds(pause), [this, key, ticket] { tick(key, ticket); });
  waiter.reply(progress(*job, waiter));
}

Progress Jobs::progress(Job& job, const Waiter& waiter) const {
  Progress progress = waiter.names ? progress_on(job, *waiter.names)
                                   : progress_of(worker_status(job, WorkerTask::stage));
  if (job.record.state == JobState::queued) {
    progress = {};
    progress.phase = ProgressPhase::queued;
    progress.jobs_ahead = static_cast<std::uint32_t>(
        staging_now() + queue_.ahead_of(job.record.key(), places_by_user()));
  } else if (job.record.state == JobState::staging ||
             (waiter.names && job.record.state == JobState::ready)) {
    const auto elapsed = Clock::now() - job.worker_begun;
    progress.elapsed_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count());
  } else {
    progress = {};
    if (job.record.state == JobState::ready) progress.phase = ProgressPhase::others;
  }
  if (waiter.speaks && waiter.scope == WaitScope::all) progress.others = others_line(job);
  progress.directory = files_.path(job.record);
  return progress;
}

// A worker with `async` items says ready before it ends.
void Jobs::notice_ready(Job& job) {
  if (job.record.state == JobState::staging &&
      worker_status(job, WorkerTask::stage).phase == WorkerPhase::ready) {
    set_state(job, JobState::ready);
  }
}

Jobs::Word Jobs::word_for(const Job& job, WaitScope scope) const {
  const JobRecord& record = job.record;
  const bool all = scope == WaitScope::all && is_shared(record) && !at_.peers.off();
  switch (record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
    case JobState::staging:
      return all && record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    case JobState::ready:
      if (!all || record.verdict == Verdict::ready) return Word::ready;
      return record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    default:
      return Word::failed;
  }
}

// Those whose answer is known. An await's is looked for in its own tick(), unless all is lost.
void Jobs::tell_waiters(Job& job) {
  for (auto item = job.waiters.begin(); item != job.waiters.end();) {
    const Word word = word_for(job, item->second.scope);
    if (word == Word::not_yet || (word == Word::ready && item->second.names)) {
      ++item;
      continue;
    }
    at_.loop.cancel(item->second.timer);
    answer(job, item->second, word);
    item = job.waiters.erase(item);
  }
}

void Jobs::answer(Job& job, const Waiter& waiter, Word word) {
  if (word == Word::ready) {
    if (!job.record.may_have_run) may_run(job);
    if (job.record.times.run == 0) {
      job.record.times.run = wall_ms();
      save(job);
      tell_use(job);
    }
    return waiter.reply(ready_message(job, waiter));
  }
  const JobRecord& record = job.record;
  const bool others = record.cause.empty() && record.verdict == Verdict::failed;
  const std::string& cause = others ? record.verdict_text : record.cause;
  waiter.reply(Failed{cause.empty() ? "the job has ended" : cause, {}});
}

Ready Jobs::ready_message(Job& job, const Waiter& waiter) {
  const WorkerStatus status = worker_status(job, WorkerTask::stage);
  Ready ready{status.environment, {}};
  ready.environment.insert(ready.environment.begin(), "SLURM_TMPDIR=" + files_.path(job.record));
  if (!waiter.speaks || job.record.announced) return ready;
  ready.lines = summary_lines(status);
  const bool all = waiter.scope == WaitScope::all && is_shared(job.record);
  const auto off = at_.peers.off();
  const bool too_many = job.record.begin.node_count > 1 && job.record.begin.first_node.empty() &&
                        !job.record.begin.request.empty() && waiter.scope == WaitScope::all;
  if ((off && all) || too_many) {
    ready.lines.push_back("note: this step did not wait for the job's other nodes: " +
                          (too_many ? "the list of their names is too long" : *off));
  } else if (all && !job.record.verdict_text.empty()) {
    ready.lines.push_back("note: " + job.record.verdict_text);
  }
  job.record.announced = true;
  save(job);
  return ready;
}

}  // namespace nodestage
