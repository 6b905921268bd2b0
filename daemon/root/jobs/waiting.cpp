#include "daemon/root/jobs/waiting.hpp"

#include <algorithm>
#include <utility>

#include "common/talk/summary.hpp"
#include "daemon/root/push/push_plan.hpp"

namespace nodestage {
namespace {

constexpr std::uint32_t k_smallest_interval_ms = 100;
constexpr std::uint64_t k_waiter_share_ms = 10;
constexpr int k_answers_at_once = 32;

}  // namespace

Ticket Waiting::wait(const JobKey& key, const Wait& wait, Ticket ticket, Reply reply) {
  return add(key, ticket,
             {std::move(reply), wait.interval_ms, wait.speaks != 0, wait.scope, {}, {}});
}

Ticket Waiting::await(const JobKey& key, const Await& ask, Ticket ticket, Reply reply) {
  return add(key, ticket,
             {std::move(reply), ask.interval_ms, false, WaitScope::node, ask.names, {}});
}

Ticket Waiting::add(const JobKey& key, Ticket ticket, Waiter waiter) {
  waiter.interval_ms = std::max(waiter.interval_ms, k_smallest_interval_ms);
  waiters_[key].emplace(ticket, std::move(waiter));
  tick(key, ticket);
  return find(key, ticket) == nullptr ? 0 : ticket;
}

Waiting::Waiter* Waiting::find(const JobKey& key, Ticket ticket) {
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) return nullptr;
  const auto found = waiters->second.find(ticket);
  return found == waiters->second.end() ? nullptr : &found->second;
}

void Waiting::remove(const JobKey& key, Ticket ticket) {
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) return;
  waiters->second.erase(ticket);
  if (waiters->second.empty()) waiters_.erase(waiters);
}

// Answers one waiter, or reports progress to it and sets its next tick.
void Waiting::tick(const JobKey& key, Ticket ticket) {
  if (JobRecord* record = at_.table.find(key)) at_.staging.look(*record);
  answer(key);
  const JobRecord* record = at_.table.find(key);
  Waiter* waiter = find(key, ticket);
  if (record == nullptr || waiter == nullptr) return;
  const bool is_settled = at_.staging.is_settled(*record);
  const bool is_answered = waiter->names && is_settled;
  if (const auto word = is_answered ? word_on(*record, *waiter->names) : std::nullopt) {
    const Reply reply = std::move(waiter->reply);
    remove(key, ticket);
    return reply(*word);
  }
  // Many waiters get progress less often: each time, the status file is read for it.
  const auto pause = std::max<std::uint64_t>(is_settled ? waiter->interval_ms : k_waiter_share_ms,
                                             k_waiter_share_ms * waiters_[key].size());
  waiter->timer =
      at_.loop.after(std::chrono::milliseconds(pause), [this, key, ticket] { tick(key, ticket); });
  waiter->reply(progress(*record, *waiter));
}

// An await is answered by its own tick(), unless the job has failed.
void Waiting::answer(const JobKey& key) {
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) return;
  std::vector<Ticket> tickets;
  for (const auto& [ticket, waiter] : waiters->second) tickets.push_back(ticket);
  int answered_now = 0;
  for (const Ticket ticket : tickets) {
    JobRecord* record = at_.table.find(key);
    Waiter* waiter = find(key, ticket);
    if (record == nullptr || waiter == nullptr) continue;
    const Word word = word_for(*record, waiter->scope);
    if (word == Word::not_yet || (word == Word::ready && waiter->names)) continue;
    if (answered_now++ == k_answers_at_once) return answer_later(key);
    at_.loop.cancel(waiter->timer);
    const Waiter answered = std::move(*waiter);
    remove(key, ticket);
    answer(*record, answered, word);
  }
}

void Waiting::answer_later(const JobKey& key) {
  if (!to_answer_.insert(key).second) return;
  at_.loop.after({}, [this, key] {
    to_answer_.erase(key);
    answer(key);
  });
}

void Waiting::forget(const JobKey& key) {
  at_.limits.forget(key);
  const auto left = waiters_.extract(key);
  if (left.empty()) return;
  for (const auto& [ticket, waiter] : left.mapped()) {
    at_.loop.cancel(waiter.timer);
    waiter.reply(Failed{"the job has ended", {}});
  }
}

bool Waiting::leave(Ticket ticket) {
  for (const auto& [key, waiters] : waiters_) {
    const auto found = waiters.find(ticket);
    if (found == waiters.end()) continue;
    at_.loop.cancel(found->second.timer);
    remove(JobKey(key), ticket);
    return true;
  }
  return false;
}

bool Waiting::is_for_all(const JobKey& key) const {
  const auto waiters = waiters_.find(key);
  return waiters != waiters_.end() &&
         std::any_of(waiters->second.begin(), waiters->second.end(),
                     [](const auto& item) { return item.second.scope == WaitScope::all; });
}

Waiting::Word Waiting::word_for(const JobRecord& record, WaitScope scope) const {
  const bool all = scope == WaitScope::all && spans_nodes(record) && !at_.peers.off();
  switch (record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
    case JobState::staging:
      return all && record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    case JobState::ready:
      if (!all || record.verdict == Verdict::ready) return Word::ready;
      return record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    case JobState::failed:
    case JobState::stopping:
    case JobState::awaiting_outcome:
    case JobState::staging_out:
    case JobState::held:
    case JobState::gone:
      break;
  }
  return Word::failed;
}

void Waiting::answer(JobRecord& record, const Waiter& waiter, Word word) {
  if (word != Word::ready) {
    const bool others = record.cause.empty() && record.verdict == Verdict::failed;
    const std::string& cause = others ? record.verdict_text : record.cause;
    return waiter.reply(Failed{cause.empty() ? "the job has ended" : cause, {}});
  }
  at_.credits.may_run(record);
  if (record.times.run == 0) {
    record.times.run = at_.loop.wall_ms();
    at_.table.save(record);
    at_.talk.use_changed(record);
  }
  const Ready ready = ready_message(record, waiter);
  waiter.reply(ready);
  if (ready.lines.empty()) return;
  // Not before the reply has gone, which waits for the journal: the next daemon says the lines of
  // one that was killed before that.
  at_.table.then([this, key = record.key()] {
    JobRecord* const answered = at_.table.find(key);
    if (answered == nullptr || answered->announced) return;
    answered->announced = true;
    at_.table.save(*answered);
  });
}

Ready Waiting::ready_message(const JobRecord& record, const Waiter& waiter) {
  WorkerStatus status = status_of(record);
  Ready ready{status.environment, {}};
  ready.environment.insert(ready.environment.begin(), "SLURM_TMPDIR=" + at_.files.path(record));
  if (!waiter.speaks || record.announced) return ready;
  at_.staging.add_hints(record.key(), status);
  ready.lines = told_lines(status);
  for (const std::string& note :
       {note_on_others(record, waiter.scope),
        raised_note(status.every_s, at_.config.stageout.least_interval_s)}) {
    if (!note.empty()) ready.lines.push_back(note);
  }
  return ready;
}

std::string Waiting::note_on_others(const JobRecord& record, WaitScope scope) const {
  if (scope != WaitScope::all) return {};
  const Begin& begin = record.begin;
  const auto off = at_.peers.off();
  const bool too_many = begin.node_count > 1 && begin.first_node.empty() && !begin.request.empty();
  if (too_many || (off && spans_nodes(record)))
    return "note: this step did not wait for the job's other nodes: " +
           (too_many ? "the list of their names is too long" : *off);
  const bool has_text = spans_nodes(record) && !record.verdict_text.empty();
  return has_text ? "note: " + record.verdict_text : "";
}

Progress Waiting::progress(const JobRecord& record, const Waiter& waiter) const {
  Progress progress;
  const bool is_ready = record.state == JobState::ready;
  if (record.state == JobState::queued) {
    progress.phase = ProgressPhase::queued;
    progress.current = at_.staging.waits_for(record.key());
    progress.jobs_ahead = static_cast<std::uint32_t>(at_.staging.jobs_ahead(record.key()));
  } else if (record.state == JobState::staging || (waiter.names && is_ready)) {
    progress = waiter.names ? progress_on(record, *waiter.names) : progress_of(status_of(record));
    const auto elapsed = at_.workers.age(record.key(), WorkerTask::stage);
    progress.elapsed_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count());
    add_lack(record, progress);
  } else if (is_ready) {
    progress.phase = ProgressPhase::others;
  }
  if (waiter.speaks) progress.others = others_text(record, waiter.scope, progress);
  progress.directory = at_.files.path(record);
  return progress;
}

// A worker that lacks space has written nothing yet, or stands still.
void Waiting::add_lack(const JobRecord& record, Progress& progress) const {
  std::string lack = at_.staging.lack_of(record.key());
  if (lack.empty()) return;
  progress.phase = ProgressPhase::queued;
  progress.current = std::move(lack);
}

// What follows the figures of this node. One node of a job asks Slurm for its limit.
std::string Waiting::others_text(const JobRecord& record, WaitScope scope,
                                 Progress& progress) const {
  std::string text = is_on_first_node(record) ? at_.limits.note(record, progress) : "";
  const std::string others = scope == WaitScope::all ? at_.talk.line(record) : "";
  if (!text.empty() && !others.empty()) text += "; ";
  return text + others;
}

}  // namespace nodestage
