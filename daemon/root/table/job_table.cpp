#include "daemon/root/table/job_table.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_save_again{5};

// clang-format off
// From the state of a row to those of the columns, both in the order of JobState: waiting for the
// directory (w), queued (q), staging (s), ready (r), failed (f), stopping (x), awaiting the outcome
// (a), staging out (o), held (h), gone (g).
constexpr std::string_view k_transitions[] = {
    //         wqsrfxaohg
    /* w */   "wq.rf.aohg",  // ready at once: a job that wants a directory only
    /* q */   ".qs.fxaohg",  // stopping for a push
    /* s */   ".q.rfxaohg",  // queued again when its worker was lost with the daemon
    /* r */   "....fxaohg",  // failed when the journal cannot note that it is ready
    /* f */   ".....xaohg",
    /* x */   ".....xaohg",
    /* a */   "......aohg",
    /* o */   "......aohg",  // the next daemon asks again how the job ended
    /* h */   ".......ohg",
    /* g */   ".........g",
};
// clang-format on

// Returns where the record notes the time at which the job came to this state.
std::uint64_t* time_of(JobTimes& times, JobState state) {
  switch (state) {
    case JobState::staging:
      return &times.staging;
    case JobState::ready:
    case JobState::failed:
      return &times.staged;
    case JobState::staging_out:
      return &times.out;
    case JobState::held:
      return &times.held;
    case JobState::gone:
      return &times.gone;
    case JobState::waiting_for_directory:
    case JobState::queued:
    case JobState::stopping:
    case JobState::awaiting_outcome:
      break;
  }
  return nullptr;
}

}  // namespace

bool may_follow(JobState from, JobState to) {
  return k_transitions[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] != '.';
}

JobTable::JobTable(Loop& loop, Journal& journal, Counters& counters)
    : loop_(loop), journal_(journal), counters_(counters) {
  journal_.set_on_fault([this](const JobKey& key, const Error& fault) {
    if (const JobRecord* record = find(key)) note_fault(*record, fault);
  });
}

JobRecord* JobTable::find(const JobKey& key) {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

const JobRecord* JobTable::find_live(std::uint32_t job) const {
  const JobRecord* newest = nullptr;
  for (auto item = records_.lower_bound({job, 0}); item != records_.end() && item->first.job == job;
       ++item) {
    if (is_live(item->second)) newest = &item->second;
  }
  return newest;
}

JobRecord* JobTable::find_live(std::uint32_t job) {
  return const_cast<JobRecord*>(std::as_const(*this).find_live(job));
}

Result<JobRecord*> JobTable::add(JobRecord record) {
  const JobKey key = record.key();
  Status saved = journal_.save_request(record);
  if (saved) saved = journal_.save(record);
  if (!saved) {
    journal_.forget(key);
    return Error{saved.error().code, "the journal cannot be written: " + saved.error().what};
  }
  return &records_.insert_or_assign(key, std::move(record)).first->second;
}

std::vector<JobKey> JobTable::load() {
  auto loaded = journal_.load();
  for (const std::string& fault : loaded.faults) log::error("journal: {}", fault);
  std::stable_sort(loaded.records.begin(), loaded.records.end(),
                   [](const JobRecord& a, const JobRecord& b) { return a.begun_at < b.begun_at; });
  std::vector<JobKey> keys;
  for (JobRecord& record : loaded.records) {
    keys.push_back(record.key());
    records_.insert_or_assign(keys.back(), std::move(record));
  }
  return keys;
}

void JobTable::forget(const JobKey& key) {
  journal_.forget(key);
  unsaved_.erase(key);
  since_.erase(key);
  records_.erase(key);
}

void JobTable::set_state(JobRecord& record, JobState state) {
  if (!may_follow(record.state, state))
    return log::error(about(record),
                      "stays '{}' and does not become '{}': a defect of nodestage; report it",
                      to_text(record.state), to_text(state));
  note_times(record, state);
  record.state = state;
  log::info(about(record), "{}", to_text(state));
}

void JobTable::change(JobRecord& record, JobState state) {
  set_state(record, state);
  save(record);
}

// The first time counts: after a restart of the daemon, a job can come to a state again.
void JobTable::note_times(JobRecord& record, JobState state) {
  std::uint64_t* const time = time_of(record.times, state);
  if (time != nullptr && *time == 0) *time = loop_.wall_ms();
  const auto [known, is_new] = since_.try_emplace(record.key(), loop_.now());
  if (is_new || record.state == state) return;
  counters_.add_time(record.state, loop_.now() - known->second);
  known->second = loop_.now();
}

std::optional<Clock::time_point> JobTable::since(const JobKey& key) const {
  const auto found = since_.find(key);
  if (found == since_.end()) return {};
  return found->second;
}

void JobTable::save(const JobRecord& record) {
  const JobKey key = record.key();
  const Status saved = journal_.save(record);
  if (saved) {
    if (unsaved_.erase(key) > 0) log::info(about(record), "the journal is written again");
    return;
  }
  note_fault(record, saved.error());
}

void JobTable::note_fault(const JobRecord& record, const Error& fault) {
  if (unsaved_.insert_or_assign(record.key(), fault.what).second)
    log::error(about(record), "the journal cannot be written, and is tried again: {}", fault.what);
  if (!save_timer_) save_timer_ = loop_.after(k_save_again, [this] { save_again(); });
}

void JobTable::save_again() {
  save_timer_.reset();
  for (const auto& [key, why] : std::map(unsaved_)) save(records_.at(key));
}

std::optional<std::string> JobTable::unsaved(const JobKey& key) const {
  const auto found = unsaved_.find(key);
  if (found == unsaved_.end()) return {};
  return found->second;
}

}  // namespace nodestage
