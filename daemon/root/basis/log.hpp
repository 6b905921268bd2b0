// The daemon's log: one line per event. If stderr is journald's stream, lines go to journald with
// fields, otherwise to stderr as text: "TIME LEVEL: job=12.0 uid=1000 role=worker: TEXT".
//
//   field              in
//   MESSAGE, PRIORITY  every line: the text alone, and syslog's number of the level
//   NODESTAGE_JOB      lines about a job: "12.0", job id and restart count
//   NODESTAGE_UID      lines about a job: the user's number
//   NODESTAGE_ROLE     every line: the author of the text: daemon, worker, notice
//   NODESTAGE_ITEM     lines about one item: its source
//
// Texts may contain what users wrote. Here, unprintable characters are escaped, newlines become
// "; ", and lines are bounded (log_limit.hpp): no line or field is forged, and no log flooded.
#pragma once

#include <spdlog/common.h>
#include <spdlog/fmt/fmt.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/job.hpp"

namespace nodestage {

// What a line is about.
struct Subject {
  std::string job = {};  // "12.0"; "": none
  uid_t uid = 0;         // of the job's user
  std::string role = "daemon";
  std::string item = {};  // "": none, or all
};

Subject about(const JobRecord& record, const char* role = "daemon");
Subject about(const Begin& begin);
Subject about_item(const JobRecord& record, const std::string& item);

// Logs one line for each of a job's items, which starts with `before`; lines[i] is about
// status.items[i].
void log_items(const JobRecord& record, std::string_view before, const WorkerStatus& status,
               const std::vector<std::string>& lines);

namespace log {

using Level = spdlog::level::level_enum;

// Chooses the destination of lines from $JOURNAL_STREAM and stderr. Before this call, and in tests,
// lines go as text to spdlog's default logger.
void open();
void set_level(const std::string& name);  // trace, debug, info, warn, error, critical, off

bool is_wanted(Level level);
// Does nothing unless the level is wanted, or if too many lines are about that user.
void write(Level level, const Subject& subject, std::string_view text);

// The "NAME=value" text of each field.
std::vector<std::string> journal_fields(Level level, const Subject& subject, std::string_view text);

// Whether `fd` is the file that systemd(1) names in $JOURNAL_STREAM ("device:inode").
bool is_journal_stream(const char* journal_stream, int fd);

// info("…{}…", value), info(about(record), "…{}…", value)
template <Level k_level>
struct Line {
  template <typename... Values>
  void operator()(const Subject& subject, fmt::format_string<Values...> format,
                  Values&&... values) const {
    if (is_wanted(k_level))
      write(k_level, subject, fmt::format(format, std::forward<Values>(values)...));
  }
  template <typename... Values>
  void operator()(fmt::format_string<Values...> format, Values&&... values) const {
    (*this)(Subject{}, format, std::forward<Values>(values)...);
  }
};

inline constexpr Line<Level::debug> debug;
inline constexpr Line<Level::info> info;
inline constexpr Line<Level::warn> warn;
inline constexpr Line<Level::err> error;
inline constexpr Line<Level::critical> critical;

}  // namespace log
}  // namespace nodestage
