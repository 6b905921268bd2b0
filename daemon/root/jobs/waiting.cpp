#include "daemon/root/jobs/waiting.hpp"

#include <algorithm>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/root/push/push_plan.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_variable = "NODESTAGE_DATASET";
constexpr std::size_t k_max_text_bytes = 32 * 1024;

// A name as a record has it.
std::string as_field(std::string name) {
  name.resize(std::min(name.size(), sizeof ItemRecord::name - 1));
  return name;
}

std::string as_path(std::string_view name, const std::string& directory) {
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  return name.starts_with('/') ? std::string(name) : directory + "/" + std::string(name);
}

struct Known {
  std::string name;
  std::string destination;
};

// The items that `name` means.
std::vector<std::size_t> find(const std::vector<Known>& items, const std::string& name,
                              const std::string& directory) {
  std::vector<std::size_t> found;
  const auto take = [&](auto means) {
    for (std::size_t i = 0; found.empty() && i < items.size(); ++i)
      if (means(items[i])) found.push_back(i);
    return !found.empty();
  };
  const std::string variable = variable_name(name);
  if (variable.empty()) return found;
  if (take([&, full = as_field(variable)](const Known& item) { return item.name == full; }))
    return found;
  const std::string prefix = std::string(k_variable) + "_";
  if (variable.starts_with(prefix) && take([&, rest = as_field(variable.substr(prefix.size()))](
                                               const Known& item) { return item.name == rest; }))
    return found;
  if (variable == k_variable && !items.empty()) return {0};
  take(
      [&, path = as_path(name, directory)](const Known& item) { return item.destination == path; });
  return found;
}

}  // namespace

Awaited choose_awaited(const WorkerStatus& status, const std::vector<std::string>& names,
                       const std::string& directory) {
  if (names.empty()) return {status, {}};
  std::vector<Known> items;
  items.reserve(status.items.size());
  for (const ItemRecord& item : status.items)
    items.push_back({field_text(item.name), field_text(item.destination)});
  std::vector<bool> is_meant(items.size());
  Awaited awaited;
  for (const std::string& name : names) {
    const auto found = find(items, name, directory);
    for (const std::size_t i : found) is_meant[i] = true;
    if (found.empty()) awaited.unknown.push_back(name);
  }
  awaited.status.phase = status.phase;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (is_meant[i]) awaited.status.items.push_back(status.items[i]);
  return awaited;
}

bool all_ended(const WorkerStatus& status) {
  return std::none_of(status.items.begin(), status.items.end(), is_unfinished);
}

std::string failures(const WorkerStatus& status, Optional optional, const std::string& fault) {
  std::string text;
  for (const ItemRecord& item : status.items) {
    const bool failed = state_of(item) == ItemState::failed;
    const bool left_out = optional == Optional::is_left_out && (item.flags & k_item_optional) != 0;
    if (left_out || (!failed && (fault.empty() || !is_unfinished(item)))) continue;
    const std::string note = failed ? field_text(item.note) : fault;
    const std::string line = "dataset '" + printable(field_text(item.name)) +
                             "': " + (note.empty() ? "failed" : printable(note, Newlines::keep));
    if (text.size() + line.size() > k_max_text_bytes) return text + "\n(and more)";
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string dataset_names(const WorkerStatus& status) {
  std::string text;
  for (const ItemRecord& item : status.items)
    text += (text.empty() ? "" : ", ") + printable(field_text(item.name));
  return text;
}

namespace {

constexpr std::uint32_t k_smallest_interval_ms = 100;
constexpr std::uint64_t k_waiter_share_ms = 10;
constexpr int k_waits_at_once = 32;
// For the first node's word on a failure; it waits for others' for a second (Barrier).
constexpr std::chrono::seconds k_share_wait{3};

}  // namespace

Ticket Waiting::wait(const JobKey& key, const Wait& wait, Ticket ticket, Reply reply) {
  return add(key, ticket, {std::move(reply), wait.interval_ms, wait.speaks, wait.scope, {}, {}});
}

Ticket Waiting::await(const JobKey& key, const Await& ask, Ticket ticket, Reply reply) {
  return add(key, ticket, {std::move(reply), ask.interval_ms, 0, WaitScope::node, ask.names, {}});
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
  answer(key);
  const JobRecord* record = deps_.table.find(key);
  Waiter* waiter = find(key, ticket);
  if (record == nullptr || waiter == nullptr) return;
  const bool is_settled = deps_.staging.sharing().is_settled(*record);
  const bool is_answered = waiter->names && is_settled;
  if (const auto word = is_answered ? word_on(*record, *waiter->names) : std::nullopt) {
    const Reply reply = std::move(waiter->reply);
    remove(key, ticket);
    return reply(*word);
  }
  // Many waiters get progress less often: each time, the status file is read for it.
  const auto pause = std::max<std::uint64_t>(is_settled ? waiter->interval_ms : k_waiter_share_ms,
                                             k_waiter_share_ms * waiters_[key].size());
  waiter->timer = deps_.loop.after(std::chrono::milliseconds(pause),
                                   [this, key, ticket] { tick(key, ticket); });
  if (record->state != JobState::failed) waiter->reply(progress(*record, *waiter));
}

// An await is answered by its own tick(), unless the job has failed.
void Waiting::answer(const JobKey& key) {
  const auto waiters = waiters_.find(key);
  if (waiters == waiters_.end()) return;
  std::vector<Ticket> tickets;
  for (const auto& [ticket, waiter] : waiters->second) tickets.push_back(ticket);
  int answered_now = 0;
  for (const Ticket ticket : tickets) {
    JobRecord* record = deps_.table.find(key);
    Waiter* waiter = find(key, ticket);
    if (record == nullptr || waiter == nullptr) continue;
    const Word word = word_for(*record, waiter->scope);
    if (word == Word::not_yet || (word == Word::ready && waiter->names)) continue;
    if (answered_now++ == k_waits_at_once) return answer_later(key);
    deps_.loop.cancel(waiter->timer);
    const Waiter answered = std::move(*waiter);
    remove(key, ticket);
    answer(*record, answered, word);
  }
}

void Waiting::answer_later(const JobKey& key) {
  if (!to_answer_.insert(key).second) return;
  deps_.loop.after({}, [this, key] {
    to_answer_.erase(key);
    answer(key);
  });
}

void Waiting::forget(const JobKey& key) {
  deps_.limits.forget(key);
  const auto left = waiters_.extract(key);
  if (left.empty()) return;
  for (const auto& [ticket, waiter] : left.mapped()) {
    deps_.loop.cancel(waiter.timer);
    waiter.reply(Failed{"the job has ended", {}});
  }
}

bool Waiting::leave(Ticket ticket) {
  for (const auto& [key, waiters] : waiters_) {
    const auto found = waiters.find(ticket);
    if (found == waiters.end()) continue;
    deps_.loop.cancel(found->second.timer);
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
  const bool all = scope == WaitScope::all && spans_nodes(record) && !deps_.peers.off();
  switch (record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
    case JobState::staging:
      return all && record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    case JobState::ready:
      if (!all || record.verdict == Verdict::ready) return Word::ready;
      return record.verdict == Verdict::failed ? Word::failed : Word::not_yet;
    case JobState::failed:
      // The first node says soon which nodes share the failure.
      if (all && record.verdict == Verdict::open &&
          deps_.loop.now() -
                  deps_.table.since(record.key()).value_or(deps_.loop.now() - k_share_wait) <
              k_share_wait)
        return Word::not_yet;
      break;
    case JobState::stopping:
    case JobState::awaiting_outcome:
    case JobState::staging_out:
    case JobState::held:
    case JobState::gone:
      break;
  }
  return Word::failed;
}

// What a step prints: on the first node the failure with all nodes that share it, on others nothing
// of what that one prints.
std::string Waiting::failure_text(const JobRecord& record, const Waiter& waiter) const {
  const std::string& told = record.verdict_text;
  const bool is_first = is_on_first_node(record);
  const bool is_own = is_first && told == failure_on({printable(record.begin.node)}, record.cause);
  const bool is_told = record.verdict == Verdict::failed && spans_nodes(record) &&
                       waiter.scope == WaitScope::all && !told.empty() && !is_own;
  // A first node of the previous release sends the text alone.
  const bool is_in_text =
      record.verdict_cause.empty() && told.ends_with(": " + bounded(record.cause));
  const bool is_shared =
      record.cause.empty() || is_in_text || bounded(record.cause) == record.verdict_cause;
  if (is_told && is_shared)
    return waiter.speaks == k_says_own && deps_.talk.has_verdict_of_first(record.key()) ? "" : told;
  return record.cause.empty() ? "the job has ended" : record.cause;
}

void Waiting::answer(JobRecord& record, const Waiter& waiter, Word word) {
  if (word != Word::ready) return waiter.reply(Failed{failure_text(record, waiter), {}});
  deps_.credits.may_run(record);
  if (record.times.run == 0) {
    record.times.run = deps_.loop.wall_ms();
    deps_.table.save(record);
    deps_.talk.use_changed(record);
  }
  const Ready ready = ready_message(record, waiter);
  waiter.reply(ready);
  if (ready.lines.empty()) return;
  // Not before the reply has gone, which waits for the journal: the next daemon says the lines of
  // one that was killed before that.
  deps_.table.then([this, key = record.key()] {
    JobRecord* const answered = deps_.table.find(key);
    if (answered == nullptr || answered->announced) return;
    answered->announced = true;
    deps_.table.save(*answered);
  });
}

Ready Waiting::ready_message(const JobRecord& record, const Waiter& waiter) {
  WorkerStatus status = status_of(record);
  Ready ready{status.environment, {}};
  ready.environment.insert(ready.environment.begin(), "SLURM_TMPDIR=" + deps_.files.path(record));
  if (waiter.speaks == 0 || record.announced) return ready;
  deps_.staging.add_hints(record.key(), status);
  ready.lines = user_summary(status);
  for (const std::string& note :
       {note_on_others(record, waiter.scope),
        raised_note(status.every_s, deps_.config.stageout.least_interval_s)}) {
    if (!note.empty()) ready.lines.push_back(note);
  }
  return ready;
}

std::string Waiting::note_on_others(const JobRecord& record, WaitScope scope) const {
  if (scope != WaitScope::all) return {};
  const Begin& begin = record.begin;
  const auto off = deps_.peers.off();
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
    progress.current = deps_.staging.waits_for(record.key());
    progress.jobs_ahead = static_cast<std::uint32_t>(deps_.staging.jobs_ahead(record.key()));
  } else if (record.state == JobState::staging || (waiter.names && is_ready)) {
    progress = waiter.names ? progress_on(record, *waiter.names) : progress_of(status_of(record));
    progress.elapsed_ms = deps_.workers.age_ms(record.key(), WorkerTask::stage);
    add_lack(record, progress);
  } else if (is_ready) {
    progress.phase = ProgressPhase::others;
  }
  if (waiter.speaks != 0) progress.others = others_text(record, waiter.scope, progress);
  progress.directory = deps_.files.path(record);
  return progress;
}

// A worker that lacks space has written nothing yet, or stands still.
void Waiting::add_lack(const JobRecord& record, Progress& progress) const {
  std::string lack = deps_.staging.lack_of(record.key());
  if (lack.empty()) return;
  progress.phase = ProgressPhase::queued;
  progress.current = std::move(lack);
}

// What follows the figures of this node. One node of a job asks Slurm for its limit.
std::string Waiting::others_text(const JobRecord& record, WaitScope scope,
                                 Progress& progress) const {
  std::string text = is_on_first_node(record) ? deps_.limits.note(record, progress) : "";
  const std::string others = scope == WaitScope::all ? deps_.talk.line(record) : "";
  if (!text.empty() && !others.empty()) text += "; ";
  return text + others;
}

// What a process of the job waits for: datasets, by name or all.

namespace {

constexpr std::size_t k_max_names_bytes = 16 * 1024;  // two of them go into one message

Refused unknown_datasets(const std::vector<std::string>& unknown, const WorkerStatus& status) {
  const std::string known = shortened(dataset_names(status), k_max_names_bytes);
  return {RefusalReason::unknown_name,
          "the job has no dataset " + shortened(quoted_names(unknown), k_max_names_bytes) +
              (known.empty() ? "; it has none at all" : "; those it has: " + known)};
}

}  // namespace

// The answer, if there is one yet. While the job still stages, the list can be incomplete and the
// name of a dataset still a guess: then only names that are known have one.
std::optional<Message> Waiting::word_on(const JobRecord& record,
                                        const std::vector<std::string>& names) const {
  const bool is_ready = record.state == JobState::ready;
  if (!is_ready && (record.state != JobState::staging || names.empty())) return {};
  const WorkerStatus status = status_of(record);
  const bool is_lost = is_ready && !deps_.workers.is_working(record.key(), WorkerTask::stage) &&
                       !record.begin.request.empty();
  if (status.phase == WorkerPhase::none && !record.begin.request.empty()) {
    if (!is_lost) return {};
    return Failed{"what became of the staging is not known on this node", {}};
  }
  const Awaited awaited = choose_awaited(status, names, deps_.files.path(record));
  if (!awaited.unknown.empty()) {
    if (!is_ready) return {};
    return unknown_datasets(awaited.unknown, status);
  }
  std::string fault;
  if (is_lost) {
    fault = deps_.staging.async_fault(record.key());
    if (fault.empty()) fault = "the staging process ended before it was staged";
    fault = Error{0, fault, "Submit again; if it happens again, tell your administrators."}.text();
  }
  const std::string failed =
      failures(awaited.status, names.empty() ? Optional::is_left_out : Optional::counts, fault);
  if (!failed.empty()) return Failed{failed, {}};
  if (!all_ended(awaited.status)) return {};
  return Ready{{}, user_summary(awaited.status)};
}

Progress Waiting::progress_on(const JobRecord& record,
                              const std::vector<std::string>& names) const {
  const WorkerStatus status = status_of(record);
  const Awaited awaited = choose_awaited(status, names, deps_.files.path(record));
  Progress progress = progress_of(awaited.status, Counted::all);
  if (status.phase == WorkerPhase::ready) progress.phase = ProgressPhase::staging;
  return progress;
}

}  // namespace nodestage
