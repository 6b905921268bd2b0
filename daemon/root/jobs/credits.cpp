#include "daemon/root/jobs/credits.hpp"

#include <algorithm>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_least_elapsed_ms = 5000;
constexpr std::uint64_t k_least_left_s = 60;  // of one that is asked for: no limit is shorter
constexpr double k_most_left_s = 1e9;

}  // namespace

std::optional<std::uint64_t> seconds_left(const Progress& progress) {
  const bool is_known = progress.phase == ProgressPhase::staging && progress.bytes_read > 0 &&
                        progress.bytes_total > progress.bytes_read &&
                        progress.elapsed_ms >= k_least_elapsed_ms;
  if (!is_known) return {};
  const auto rest = static_cast<double>(progress.bytes_total - progress.bytes_read);
  const double times = rest / static_cast<double>(progress.bytes_read);
  const double seconds = times * static_cast<double>(progress.elapsed_ms) / 1000;
  if (seconds > k_most_left_s) return {};
  return static_cast<std::uint64_t>(seconds);
}

std::string TimeLimits::note(const JobRecord& record, Progress& progress) {
  const auto left = seconds_left(progress);
  auto found = ends_.find(record.key());
  if (found == ends_.end()) {
    if (!left || *left < k_least_left_s) return {};
    found = ends_.emplace(record.key(), 0).first;
    ask(record.key(), std::to_string(record.key().job));
  }
  const std::uint64_t end = found->second;
  const std::uint64_t now = loop_.wall_s();
  if (end == 0) return {};
  if (now >= end) {
    progress.bytes_total = 0;
    return "the job's time limit has passed";
  }
  if (!left || now + *left <= end) return {};
  return "the job's time limit ends before that, in " + human_duration(1000 * (end - now));
}

// Without an answer, there is no note.
void TimeLimits::ask(const JobKey& key, const std::string& id) {
  questions_.ask(
      id, [this, key, id](std::string_view output) { take(key, id, read_job_limit(key, output)); });
}

void TimeLimits::take(const JobKey& key, const std::string& asked, const JobLimit& limit) {
  const JobRecord* record = table_.find(key);
  const auto found = ends_.find(key);
  if (record == nullptr || found == ends_.end()) return;
  if (limit.answer == JobLimit::Answer::ask_for && limit.id != asked) return ask(key, limit.id);
  if (limit.answer != JobLimit::Answer::known) return;
  found->second = record->begun_at + std::uint64_t{60} * limit.minutes;
}

namespace {

constexpr std::chrono::seconds k_credit_pause{1};
constexpr std::size_t k_most_looks = 1000;
constexpr unsigned k_credit_doublings = 8;  // about four minutes

std::uint64_t rounded_up(std::uint64_t milliseconds) { return (milliseconds + 999) / 1000; }

bool is_environment(const ItemRecord& item) { return (item.flags & k_item_venv) != 0; }

}  // namespace

bool makes_environment(const WorkerStatus& status) {
  return std::any_of(status.items.begin(), status.items.end(), [](const ItemRecord& item) {
    return is_environment(item) && state_of(item) == ItemState::working;
  });
}

std::uint64_t environment_ms(const WorkerStatus& status, std::uint64_t now_ms) {
  std::uint64_t sum = 0;
  for (const ItemRecord& item : status.items) {
    if (!is_environment(item) || item.begun_ms == 0) continue;
    const std::uint64_t end = item.ended_ms == 0 ? now_ms : std::min(item.ended_ms, now_ms);
    sum += end - std::min(end, item.begun_ms);
  }
  return sum;
}

void Credits::begin_look(const JobKey& key, std::uint32_t step) {
  Account& account = accounts_[key];
  if (account.steps.size() >= k_most_looks && account.steps.count(step) == 0) return;
  ++account.steps[step];
  count_use(account);
  note_looks(key, account);
}

void Credits::end_look(const JobKey& key, std::uint32_t step) {
  Account& account = accounts_[key];
  const auto found = account.steps.find(step);
  if (found == account.steps.end()) return;  // of the last daemon
  if (--found->second == 0) account.steps.erase(found);
  count_use(account);
  note_looks(key, account);
}

// For the next daemon.
void Credits::note_looks(const JobKey& key, const Account& account) {
  JobRecord* record = deps_.table.find(key);
  const bool is_looked_at = !account.steps.empty();
  if (record == nullptr || !deps_.config.credit.enabled || record->is_looked_at == is_looked_at)
    return;
  record->is_looked_at = is_looked_at;
  deps_.table.save(*record);
}

void Credits::carry_on(JobRecord& record) {
  if (record.state == JobState::ready) return queue(record.key(), {});
  const bool is_staged = record.times.staged != 0 || record.ended;
  if (!deps_.config.credit.enabled || !record.is_looked_at || is_staged) return;
  record.credited = true;
  forgo(record, "a step was in the job when nodestaged was restarted");
}

void Credits::note_use(const JobKey& key, const std::string& node, bool is_in_use) {
  Account& account = accounts_[key];
  if (is_in_use)
    account.nodes.insert(node);
  else
    account.nodes.erase(node);
  count_use(account);
}

bool Credits::is_looked_at(const JobKey& key) const {
  const auto found = accounts_.find(key);
  return found != accounts_.end() && !found->second.steps.empty();
}

void Credits::count_use(Account& account) const {
  const bool is_used = !account.steps.empty() || !account.nodes.empty();
  if (is_used && !account.since) account.since = deps_.loop.now();
  if (is_used || !account.since) return;
  account.time += deps_.loop.now() - *account.since;
  account.since.reset();
}

std::uint64_t Credits::used_s(const JobKey& key) const {
  const auto found = accounts_.find(key);
  if (found == accounts_.end()) return 0;
  const Account& account = found->second;
  const auto used =
      account.time + (account.since ? deps_.loop.now() - *account.since : Clock::duration());
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(used).count());
}

void Credits::may_run(JobRecord& record) {
  if (!std::exchange(record.may_have_run, true)) owe(record);
}

void Credits::owe(JobRecord& record) {
  const Config::Credit& settings = deps_.config.credit;
  if (!settings.enabled || !is_on_first_node(record) || record.state != JobState::ready ||
      record.ended || record.credited)
    return;
  const JobKey key = record.key();
  const WorkerStatus status = deps_.files.status(key, WorkerTask::stage);
  if (status.items.empty()) return;  // only results, for example
  const std::uint64_t now = deps_.loop.wall_s();
  const std::uint64_t used = used_s(key) + rounded_up(environment_ms(status, deps_.loop.wall_ms()));
  const std::uint64_t seconds = now - std::min(now, record.begun_at + used);
  record.credit_minutes = credit_minutes(seconds, settings);
  if (record.credit_minutes == 0) {
    log::info(about(record), "nothing is added to its time limit: it was held for {} s only",
              seconds);
    return;
  }
  queue(key, {});
}

void Credits::queue(const JobKey& key, std::chrono::milliseconds delay) {
  if (find_owed(key) == nullptr) return;
  deps_.loop.after(delay, [this, key] {
    queue_.push_back(key);
    go_on();
  });
}

JobRecord* Credits::find_owed(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || !deps_.config.credit.enabled) return nullptr;
  const bool is_owed = record->credit_minutes > 0 && !record->credited;
  return is_owed && !record->ended && is_live(*record) ? record : nullptr;
}

// One job at a time.
void Credits::go_on() {
  while (!queue_.empty() && !scontrol_.busy() && !is_noting_) {
    const JobKey key = queue_.front();
    queue_.pop_front();
    if (find_owed(key) != nullptr) ask_limit(key, std::to_string(key.job));
  }
}

void Credits::ask_limit(const JobKey& key, const std::string& id) {
  const auto take = [this, key, id](const Scontrol::Output& output) {
    take_limit(key, id, read_job_limit(key, output.text));
    go_on();
  };
  if (const Status asked = scontrol_.run({"--oneliner", "show", "job", id}, take); !asked)
    try_later(key, asked.error().what);
}

void Credits::take_limit(const JobKey& key, const std::string& asked, const JobLimit& limit) {
  JobRecord* record = find_owed(key);
  if (record == nullptr) return;
  switch (limit.answer) {
    case JobLimit::Answer::known:
      return ask_max_time(key, limit);
    case JobLimit::Answer::ask_for:
      if (limit.id != asked) return ask_limit(key, limit.id);
      return forgo(*record, "Slurm's answer about the job is not clear");
    case JobLimit::Answer::later:
      return try_later(key, limit.why);
    case JobLimit::Answer::never:
      return forgo(*record, limit.why);
  }
}

void Credits::ask_max_time(const JobKey& key, const JobLimit& limit) {
  const auto take = [this, key, limit](const Scontrol::Output& output) {
    take_max_time(key, limit, output);
    go_on();
  };
  const Status asked = scontrol_.run({"--oneliner", "show", "partition", limit.partition}, take);
  if (!asked) try_later(key, asked.error().what);
}

void Credits::take_max_time(const JobKey& key, const JobLimit& limit,
                            const Scontrol::Output& output) {
  JobRecord* record = find_owed(key);
  if (record == nullptr) return;
  const auto most = read_max_time(limit.partition, output.text);
  if (!most) return try_later(key, "Slurm gave no clear answer about its partition");
  const auto raised = raised_limit(limit.minutes, record->credit_minutes, *most);
  if (!raised)
    return forgo(*record, "it is at the MaxTime of partition " + printable(limit.partition));
  raise_limit(*record, limit, *raised);
}

void Credits::raise_limit(JobRecord& record, const JobLimit& limit, std::uint32_t raised) {
  record.credited = true;
  if (const Status saved = deps_.table.save_now(record); !saved) {
    log::error(about(record),
               "nothing is added to its time limit: the journal cannot be written: {}",
               saved.error().what);
    return;
  }
  is_noting_ = true;
  deps_.table.then([this, key = record.key(), limit, raised] {
    is_noting_ = false;
    const JobRecord* noted = deps_.table.find(key);
    if (noted != nullptr && !deps_.table.unsaved(key)) ask_raise(*noted, limit, raised);
    go_on();
  });
}

void Credits::ask_raise(const JobRecord& record, const JobLimit& limit, std::uint32_t raised) {
  const auto take = [this, subject = about(record), from = limit.minutes,
                     raised](const Scontrol::Output& output) {
    if (output.succeeded) {
      log::info(subject, "{} min of staging were added to its time limit: {} min, was {} min",
                raised - from, raised, from);
    } else {
      log::warn(subject, "Slurm did not confirm that its time limit was raised to {} min: {}",
                raised, output.text);
    }
    go_on();
  };
  const Status sent =
      scontrol_.run({"update", "JobId=" + limit.id, "TimeLimit=" + std::to_string(raised)}, take);
  if (!sent) log::error(about(record), "its time limit was not raised: {}", sent.error().what);
}

void Credits::try_later(const JobKey& key, const std::string& why) {
  const JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  const auto pause = k_credit_pause * (1U << std::min(accounts_[key].tries++, k_credit_doublings));
  log::info(about(*record), "its time limit is looked at again in {} s: {}", pause.count(), why);
  queue(key, pause);
}

void Credits::forgo(JobRecord& record, const std::string& why) {
  record.credit_minutes = 0;
  log::info(about(record), "nothing is added to its time limit: {}", why);
  deps_.table.save(record);
}

}  // namespace nodestage
