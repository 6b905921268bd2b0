#include "daemon/root/basis/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdlib>

#include "common/text/human.hpp"
#include "daemon/root/basis/service_manager.hpp"

namespace nodestage {
namespace {

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
    return "item=" + printable(subject.item) + " role=" + subject.role + ": ";
  return "job=" + subject.job + " uid=" + std::to_string(subject.uid) + " role=" + subject.role +
         ": ";
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
  std::vector<std::string> fields{"MESSAGE=" + printable(text, Newlines::join),
                                  "PRIORITY=" + std::to_string(priority_of(level)),
                                  "NODESTAGE_ROLE=" + subject.role};
  if (!subject.job.empty()) {
    fields.push_back("NODESTAGE_JOB=" + subject.job);
    fields.push_back("NODESTAGE_UID=" + std::to_string(subject.uid));
  }
  if (!subject.item.empty()) fields.push_back("NODESTAGE_ITEM=" + printable(subject.item));
  return fields;
}

void write(Level level, const Subject& subject, std::string_view text) {
  if (!is_wanted(level)) return;
  if (to_journal && send_to_journal(journal_fields(level, subject, text))) return;
  spdlog::log(level, "{}{}", prefix_of(subject), printable(text, Newlines::join));
}

}  // namespace log
}  // namespace nodestage
