#include "daemon/root/basis/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/text/human.hpp"
#include "daemon/root/basis/service_manager.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_longest_item = 512;
constexpr std::size_t k_bytes_beside_the_text = 100;  // time, level, job, and user

bool to_journal = false;  // the daemon has one thread

int priority_of(log::Level level) {
  switch (level) {
    case log::Level::critical:
      return LOG_CRIT;
    case log::Level::err:
      return LOG_ERR;
    case log::Level::warn:
      return LOG_WARNING;
    case log::Level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

std::string prefix_of(const Subject& subject) {
  if (subject.job.empty() && subject.item.empty()) return {};
  if (subject.job.empty())
    return "item=" + printable_within(subject.item, k_longest_item) + " role=" + subject.role +
           ": ";
  return "job=" + subject.job + " uid=" + std::to_string(subject.uid) + " role=" + subject.role +
         ": ";
}

// `text`: printable.
void emit(log::Level level, const Subject& subject, const std::string& text) {
  if (to_journal && send_to_journal(log::journal_fields(level, subject, text))) return;
  spdlog::log(level, "{}{}", prefix_of(subject), text);
}

// Whether there is room for a line of so many bytes about this user. Reports what was left out.
bool has_room(log::Level level, const Subject& subject, std::size_t bytes) {
  static LogLimit limit;
  const Weight weight = level < log::Level::warn ? Weight::light : Weight::heavy;
  const auto verdict = limit.ask(subject.uid, weight, bytes, std::chrono::steady_clock::now());
  if (verdict.left_out != 0)
    emit(log::Level::warn, {subject.job, subject.uid, "daemon", {}},
         human_count(verdict.left_out) + " lines about the user with uid " +
             std::to_string(subject.uid) + " were left out: the log takes " +
             human_bytes(k_log_bytes_a_minute) + " in a minute");
  return verdict.is_admitted;
}

}  // namespace

Subject about(const JobRecord& record, const char* role) {
  return {to_text(record.key()), record.begin.uid, role, {}};
}

Subject about(const Begin& begin) {
  return {to_text(JobKey{begin.job, begin.restart}), begin.uid, "daemon", {}};
}

Subject about_item(const JobRecord& record, const std::string& item) {
  Subject subject = about(record);
  subject.item = item;
  return subject;
}

void log_items(const JobRecord& record, std::string_view before, const WorkerStatus& status,
               const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size() && i < status.items.size(); ++i)
    log::info(about_item(record, field_text(status.items[i].source)), "{}{}", before, lines[i]);
}

namespace log {

bool is_journal_stream(const char* journal_stream, int fd) {
  struct stat file {};
  if (journal_stream == nullptr || ::fstat(fd, &file) != 0) return false;
  return journal_stream == std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
}

void open() {
  to_journal = is_journal_stream(::getenv("JOURNAL_STREAM"), STDERR_FILENO);
  spdlog::set_default_logger(spdlog::stderr_logger_st("nodestaged"));
  // What could not be sent to journald goes to its stream, with the time.
  spdlog::set_pattern(to_journal ? "%l: %v" : "%Y-%m-%dT%H:%M:%S.%e %l: %v");
  spdlog::flush_on(Level::info);
}

void set_level(const std::string& name) { spdlog::set_level(spdlog::level::from_str(name)); }

bool is_wanted(Level level) { return spdlog::should_log(level); }

std::vector<std::string> journal_fields(Level level, const Subject& subject,
                                        std::string_view text) {
  std::vector<std::string> fields{
      "MESSAGE=" + printable_within(text, k_longest_line, Newlines::join),
      "PRIORITY=" + std::to_string(priority_of(level)), "NODESTAGE_ROLE=" + subject.role};
  if (!subject.job.empty()) {
    fields.push_back("NODESTAGE_JOB=" + subject.job);
    fields.push_back("NODESTAGE_UID=" + std::to_string(subject.uid));
  }
  if (!subject.item.empty())
    fields.push_back("NODESTAGE_ITEM=" + printable_within(subject.item, k_longest_item));
  return fields;
}

void write(Level level, const Subject& subject, std::string_view text) {
  if (!is_wanted(level)) return;
  const std::string shown = printable_within(text, k_longest_line, Newlines::join);
  const std::size_t bytes =
      shown.size() + std::min(subject.item.size(), k_longest_item) + k_bytes_beside_the_text;
  const bool is_about_a_user = !subject.job.empty() || subject.uid != 0;
  if (!is_about_a_user || has_room(level, subject, bytes)) emit(level, subject, shown);
}

}  // namespace log

using namespace std::chrono_literals;

// Forgets the users whose minute is over, when a further one comes.
LogLimit::Minute& LogLimit::minute_of(uid_t user, Weight weight, Moment now) {
  const std::pair key{user, weight};
  if (minutes_.count(key) == 0)
    std::erase_if(minutes_, [&](const auto& item) {
      return item.second.left_out == 0 && now - item.second.begun >= 1min;
    });
  return minutes_.try_emplace(key, Minute{now}).first->second;
}

LogLimit::Verdict LogLimit::ask(uid_t user, Weight weight, std::size_t bytes, Moment now) {
  Minute& minute = minute_of(user, weight, now);
  Verdict verdict;
  if (now - minute.begun >= 1min) {
    verdict.left_out = minute.left_out;
    minute = {now};
  }
  verdict.is_admitted = minute.bytes + bytes <= k_log_bytes_a_minute;
  verdict.is_admitted ? minute.bytes += bytes : ++minute.left_out;
  return verdict;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned k_lines_a_period = 20;
constexpr std::chrono::seconds k_period{10};

struct Period {
  Clock::time_point begun{};
  unsigned written = 0;
  unsigned silent = 0;
};

}  // namespace

void log_refusal(const std::string& who, const std::string& what) {
  static Period period;  // the daemon has one thread
  if (Clock::now() - period.begun >= k_period) {
    if (period.silent > 0) log::warn("{} more refusals were not logged", period.silent);
    period = {Clock::now(), 0, 0};
  }
  if (++period.written > k_lines_a_period) {
    ++period.silent;
    return;
  }
  log::warn("{}: refused: {}", printable(who), printable(what));
}

}  // namespace nodestage
