#include "daemon/root/table/job_table.hpp"

#include <algorithm>
#include <string_view>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_times = 3;  // of the hint
// Less saved is not worth a hint.
constexpr std::uint64_t k_least_bytes = 1ULL << 30;
constexpr std::uint64_t k_least_ms = 60'000;
constexpr const char* k_since = "the third time in a day that a job of yours stages this here: ";

bool is_directory(const ItemRecord& item) { return field_text(item.what) == "directory"; }

std::string pack_hint(const ItemRecord& item) {
  if (item.files < k_many_files) return {};
  const std::string source = field_text(item.source);
  const bool is_whole = source.size() + 1 < sizeof item.source;  // A longer one is shortened.
  return k_since + ("an archive is faster than " + human_count(item.files)) +
         " files: " + how_to_pack(is_whole ? source : "");
}

}  // namespace

RepeatedSources::User& RepeatedSources::user_of(std::uint32_t uid) {
  if (users_.size() >= k_most_users && !users_.contains(uid)) {
    users_.erase(std::min_element(users_.begin(), users_.end(), [](const auto& a, const auto& b) {
      return a.second.last_s < b.second.last_s;
    }));
  }
  return users_[uid];
}

RepeatedSources::Source& RepeatedSources::source_of(User& user, std::uint64_t mark) {
  auto& sources = user.sources;
  const auto known = std::find_if(sources.begin(), sources.end(),
                                  [mark](const Source& source) { return source.mark == mark; });
  if (known != sources.end()) return *known;
  if (sources.size() < k_most_sources) return sources.emplace_back(Source{.mark = mark});
  const auto oldest =
      std::min_element(sources.begin(), sources.end(),
                       [](const Source& a, const Source& b) { return a.last_s < b.last_s; });
  return *oldest = Source{.mark = mark};
}

std::string RepeatedSources::count(const StagingJob& by, const ItemRecord& item,
                                   std::uint64_t now_s) {
  if (item.source_mark == 0 || state_of(item) != ItemState::done) return {};
  User& user = user_of(by.uid);
  Source& source = source_of(user, item.source_mark);
  if (source.first_s + k_day_s <= now_s) source = {.mark = item.source_mark, .first_s = now_s};
  user.last_s = source.last_s = now_s;
  auto& jobs = source.jobs;
  if (jobs.size() == k_times || std::find(jobs.begin(), jobs.end(), by.job) != jobs.end())
    return {};
  jobs.push_back(by.job);
  if (jobs.size() > 1) {
    source.again_bytes += item.bytes_read;
    source.again_ms += item.elapsed_ms;
  }
  if (jobs.size() < k_times) return {};
  if (is_directory(item)) return pack_hint(item);
  if (source.again_bytes < k_least_bytes && source.again_ms < k_least_ms) return {};
  return k_since +
         ("with ,shared it would have been there at once, and have saved " +
          human_bytes(source.again_bytes)) +
         " and " + human_duration(source.again_ms) + " so far";
}

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
