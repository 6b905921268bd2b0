#include "daemon/root/jobs/time_limits.hpp"

#include "common/text/human.hpp"

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
    queue_.push_back(record.key());
    go_on();
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

void TimeLimits::go_on() {
  while (!queue_.empty() && !scontrol_.busy()) {
    const JobKey key = queue_.front();
    queue_.pop_front();
    ask(key, std::to_string(key.job));
  }
}

// Without an answer, there is no note.
void TimeLimits::ask(const JobKey& key, const std::string& id) {
  const auto take_answer = [this, key, id](const Scontrol::Output& output) {
    take(key, id, read_job_limit(key, output.text));
    go_on();
  };
  static_cast<void>(!scontrol_.run({"--oneliner", "show", "job", id}, take_answer));
}

void TimeLimits::take(const JobKey& key, const std::string& asked, const JobLimit& limit) {
  const JobRecord* record = table_.find(key);
  const auto found = ends_.find(key);
  if (record == nullptr || found == ends_.end()) return;
  if (limit.answer == JobLimit::Answer::ask_for && limit.id != asked) return ask(key, limit.id);
  if (limit.answer != JobLimit::Answer::known) return;
  found->second = record->begun_at + std::uint64_t{60} * limit.minutes;
}

}  // namespace nodestage
