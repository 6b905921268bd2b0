#include "daemon/root/push/pushes.hpp"

#include <algorithm>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_least_interval{100};
constexpr std::chrono::milliseconds k_caller_share{10};
constexpr std::uint64_t k_stall_parts =
    8;  // in the time after which a worker that is stuck is given up
constexpr std::chrono::hours k_after_stuck{1};
constexpr int k_answers_at_once = 16;
constexpr std::size_t k_max_name_bytes = 4096;
// Of the names of a push in all. The sources of a request fit into it, and it leaves room for the
// rest of the order (daemon/worker/main.cpp).
constexpr std::size_t k_max_order_bytes = 32 * 1024;

bool is_bounded(const Push& ask) {
  return ask.names.size() <= k_max_request_items &&
         std::all_of(ask.names.begin(), ask.names.end(),
                     [](const std::string& name) { return name.size() <= k_max_name_bytes; });
}

// Checks it as JSON, in which a byte can become six.
bool fits_into_order(const PushWanted& wanted) {
  PushOrder order;
  wanted.write_to(order);
  return encode_order(order).size() <= k_max_order_bytes;
}

// A job that has no directory yet, or none any more, has nothing to deliver.
bool can_push(const JobRecord& record) {
  return is_live(record) && !record.ended && record.state != JobState::waiting_for_directory;
}

}  // namespace

Pushes::Job* Pushes::find(const JobKey& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : &found->second;
}

Ticket Pushes::push(JobRecord& record, const Push& ask, Ticket ticket, Reply reply) {
  const auto refuse = [&reply](RefusalReason reason, std::string what) {
    return answered(reply, Refused{reason, std::move(what)});
  };
  const JobKey key = record.key();
  PushWanted alone;
  alone.add(ask.names);
  if (!is_bounded(ask) || !fits_into_order(alone))
    return refuse(RefusalReason::malformed, "too many or too long names");
  if (record.begin.request.empty())
    return refuse(RefusalReason::unknown_name,
                  "the job has no --stage-out, so there is nothing to deliver");
  if (!can_push(record))
    return refuse(RefusalReason::unknown_job, "the job does not run on this node any more, or yet");
  Job& job = jobs_[key];
  PushWanted next = job.next;
  next.add(ask.names);
  if (!fits_into_order(next))
    return refuse(RefusalReason::busy, "too many names are asked for at once; try again");
  job.next = std::move(next);
  if (ask.waits == 0) {
    reply(Accepted{});
    ticket = 0;
  } else {
    const auto interval = std::max(std::chrono::milliseconds(ask.interval_ms), k_least_interval);
    job.callers.emplace(ticket, Caller{std::move(reply), ask.names, interval, false, {}});
    tick(key, ticket);
  }
  go_on(record);
  return job.callers.contains(ticket) ? ticket : 0;
}

bool Pushes::leave(Ticket ticket) {
  for (auto& [key, job] : jobs_) {
    const auto found = job.callers.find(ticket);
    if (found == job.callers.end()) continue;
    deps_.loop.cancel(found->second.timer);
    job.callers.erase(found);
    return true;
  }
  return false;
}

void Pushes::tick(const JobKey& key, Ticket ticket) {
  Job* job = find(key);
  if (job == nullptr || job->callers.count(ticket) == 0) return;
  Caller& caller = job->callers.at(ticket);
  Progress progress;
  progress.phase = ProgressPhase::queued;
  if (caller.is_served) {
    progress = progress_of(deps_.workers.status(key, WorkerTask::push), Counted::all);
    progress.elapsed_ms = deps_.workers.age_ms(key, WorkerTask::push);
  } else if (deps_.workers.is_working(key, WorkerTask::push)) {
    progress.current = "the delivery that is under way";
  }
  const auto callers = static_cast<std::int64_t>(job->callers.size());
  const auto pause = std::max(caller.interval, std::chrono::milliseconds(k_caller_share * callers));
  caller.timer = deps_.loop.after(pause, [this, key, ticket] { tick(key, ticket); });
  caller.reply(progress);
}

void Pushes::watch(const JobRecord& record) {
  const JobKey key = record.key();
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
  const std::uint64_t since =
      record.pushes.empty() ? record.times.staged : record.pushes.back().ended;
  const std::uint64_t now = deps_.loop.wall_ms();
  PushTimes times(record.begin, status.every_s, deps_.config.stageout.least_interval_s,
                  deps_.loop.now(), std::chrono::milliseconds(now - std::min(since, now)));
  if (!times.next()) return;
  jobs_[key].times = std::move(times);
  set_timer(key);
}

void Pushes::set_timer(const JobKey& key) {
  Job& job = jobs_[key];
  deps_.loop.cancel(job.timer);
  const auto next = job.times.next();
  if (!next) return;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - deps_.loop.now());
  job.timer = deps_.loop.after(std::max(wait, std::chrono::milliseconds(0)), [this, key] {
    jobs_[key].timer.reset();
    due(key);
  });
}

// Before the first step has run there is nothing to deliver.
void Pushes::due(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || !can_push(*record)) return;
  Job& job = jobs_[key];
  const std::uint64_t items = job.times.take_due(deps_.loop.now());
  set_timer(key);
  if (record->times.run == 0) return;
  job.next.items |= items;
  go_on(*record);
}

// Starts the next push, if one is wanted and none is under way.
void Pushes::go_on(JobRecord& record) {
  const JobKey key = record.key();
  const Job* job = find(key);
  if (job == nullptr || job->next.is_empty()) return;
  if (deps_.workers.is_working(key, WorkerTask::push)) return;
  turns_.ask(record.begin.uid, key, [this, key] { return start(key); });
}

Turns::Begun Pushes::start(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  Job* job = find(key);
  if (record == nullptr || job == nullptr || !can_push(*record) || job->next.is_empty())
    return Turns::Begun::no;
  const PushWanted wanted = std::exchange(job->next, {});
  for (auto& [ticket, caller] : job->callers) caller.is_served = true;
  if (const Status started = start_worker(*record, wanted); !started) {
    worker_ended(key,
                 {WorkerEnd::Kind::not_started, "could not be started: " + started.error().what});
    return Turns::Begun::no;
  }
  job->begun_ms = deps_.loop.wall_ms();
  job->moved_at = deps_.loop.now();
  job->seen = {};
  deps_.table.save(*record);
  look(key);
  return Turns::Begun::yes;
}

Status Pushes::start_worker(JobRecord& record, const PushWanted& wanted) {
  TRY_ASSIGN(const Fd directory, deps_.files.directory(record));
  WorkerStart start = deps_.workers.order(record, WorkerTask::push);
  auto& push = std::get<PushOrder>(start.order);
  wanted.write_to(push);
  push.shows_total = !jobs_[record.key()].callers.empty();
  start.directory_fd = directory.get();
  return deps_.workers.start(
      record, start, deps_.workers.bounds(record, WorkerTask::push),
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

// A target that does not answer must not keep the next push waiting for ever.
void Pushes::look(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || !deps_.workers.is_working(key, WorkerTask::push)) return;
  const auto limit = std::chrono::seconds(deps_.config.stageout.push_stall_s);
  const Work done = work_of(deps_.workers.status(key, WorkerTask::push));
  if (done != job->seen) {
    job->seen = done;
    job->moved_at = deps_.loop.now();
  }
  if (deps_.loop.now() - job->moved_at < limit) {
    job->look_timer = deps_.loop.after(std::chrono::milliseconds(limit) / k_stall_parts,
                                       [this, key] { look(key); });
    return;
  }
  job->given_up = "was stopped: for " + human_duration(deps_.config.stageout.push_stall_s * 1000) +
                  " it could copy nothing (stageout.push_stall); a target does not answer";
  deps_.workers.kill(key, WorkerTask::push);
}

void Pushes::adopt(JobRecord& record) {
  const JobKey key = record.key();
  const bool lives = deps_.workers.adopt(
      record, WorkerTask::push,
      [this](const JobKey& of, const WorkerEnd& end) { worker_ended(of, end); });
  if (!lives) return;
  Job& job = jobs_[key];
  job.begun_ms = deps_.loop.wall_ms();
  job.moved_at = deps_.loop.now();
  turns_.take(record.begin.uid, key);
  look(key);
}

void Pushes::stop(JobRecord& record) {
  const JobKey key = record.key();
  if (Job* job = find(key)) {
    deps_.loop.cancel(job->timer);
    job->times = {};
    job->next = {};
    answer(*job, false, [](const auto&) { return Failed{"the job has ended", {}}; });
  }
  if (!deps_.workers.is_working(key, WorkerTask::push)) return;
  deps_.workers.kill(key, WorkerTask::push);
  deps_.table.change(record, JobState::stopping);
}

// Answers those that the worker has served, or all.
bool Pushes::answer(Job& job, bool served_only, Answer make) {
  const auto shared = std::make_shared<const Answer>(std::move(make));
  bool any = false;
  for (auto next = job.callers.begin(); next != job.callers.end();) {
    const auto caller = next++;
    if (served_only && !caller->second.is_served) continue;
    deps_.loop.cancel(caller->second.timer);
    owed_.push_back({std::move(caller->second.reply), std::move(caller->second.names), shared});
    job.callers.erase(caller);
    any = true;
  }
  if (!answer_timer_) answer_some();
  return any;
}

void Pushes::answer_some() {
  answer_timer_.reset();
  for (int i = 0; i < k_answers_at_once && !owed_.empty(); ++i) {
    const Owed owed = std::move(owed_.front());
    owed_.pop_front();
    owed.reply((*owed.answer)(owed.names));
  }
  if (!owed_.empty()) answer_timer_ = deps_.loop.after({}, [this] { answer_some(); });
}

void Pushes::worker_ended(const JobKey& key, WorkerEnd end) {
  JobRecord* record = deps_.table.find(key);
  Job& job = jobs_[key];
  if (record == nullptr) {
    jobs_.erase(key);
    return;
  }
  deps_.loop.cancel(job.look_timer);
  if (const auto given_up = std::exchange(job.given_up, {})) end.text = *given_up;
  // Without a worker, what the file says is the last one's.
  const WorkerStatus status = end.kind == WorkerEnd::Kind::not_started
                                  ? WorkerStatus()
                                  : deps_.files.status(key, WorkerTask::push);
  // Each that hangs in the kernel leaves a process there.
  if (end.kind == WorkerEnd::Kind::stuck && !record->ended) {
    job.times.postpone(deps_.loop.now() + k_after_stuck);
    set_timer(key);
  }
  if (!record->ended) {
    note_end(*record, job, status, end);
    const bool was_awaited = answer(
        job, true, [status, end](const auto& names) { return answer_to(names, status, end); });
    notify_user(*record, job, status, end, was_awaited);
  }
  deps_.table.save(*record);
  turns_.end(record->begin.uid, key);
  if (!record->ended) return go_on(*record);
  if (record->state == JobState::stopping) deps_.events.done(key, Fact::stopped);
}

void Pushes::note_end(JobRecord& record, Job& job, const WorkerStatus& status,
                      const WorkerEnd& end) {
  const PushResult result = result_of(status);
  const std::uint64_t now = deps_.loop.wall_ms();
  const Work work = work_of(status);
  const std::uint64_t begun = job.begun_ms == 0 ? now : job.begun_ms;
  const PushFailures before = std::exchange(job.failures, failures_after(job.failures, status));
  record.pushes.push_back(
      {begun, now, work.bytes_written, work.files, result == PushResult::failed});
  if (record.pushes.size() > k_max_report_pushes) record.pushes.erase(record.pushes.begin());
  ++record.pushes_in_all;
  deps_.counters.add_push(result, now - std::min(begun, now));
  if (result == PushResult::failed)
    deps_.counters.add_failure(Activity::push, cause_of(end, status));
  if (!job.shown) job.shown.emplace();
  show_push(status, *job.shown);
  // A job can ask as often as it likes: the log has the first failure of a row.
  if (result == PushResult::failed && before != job.failures && !job.failures.is_empty())
    log::warn(about(record), "a delivery while the job runs has failed: {}",
              cause_of_failure(status, end));
}

// One notice when it begins to fail, and one when every output that failed succeeds again. A caller
// that waits sees it there.
void Pushes::notify_user(JobRecord& record, const Job& job, const WorkerStatus& status,
                         const WorkerEnd& end, bool was_awaited) {
  const bool has_failed = result_of(status) == PushResult::failed;
  if (has_failed == record.push_has_failed || (has_failed && was_awaited)) return;
  if (!has_failed && !job.failures.is_empty()) return;
  record.push_has_failed = has_failed;
  const std::string text = has_failed ? push_failed_notice(record, cause_of_failure(status, end))
                                      : pushed_again_notice(record);
  deps_.held.write_notice(record, text, [](Notices::Written) {});
}

WorkerStatus Pushes::status(const JobRecord& record) const {
  const JobKey key = record.key();
  const bool works = deps_.workers.is_working(key, WorkerTask::push);
  const auto found = jobs_.find(key);
  const bool is_shown = found != jobs_.end() && found->second.shown;
  if (!works && is_shown) {
    WorkerStatus status;
    status.phase = WorkerPhase::done;
    status.items = *found->second.shown;
    return status;
  }
  WorkerStatus status = deps_.workers.status(key, WorkerTask::push);
  if (is_shown) {
    std::vector<ItemRecord> items = *found->second.shown;
    show_push(status, items);
    status.items = std::move(items);
  }
  return status;
}

}  // namespace nodestage
