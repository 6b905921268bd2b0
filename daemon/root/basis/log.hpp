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
// "; ", and lines are bounded: no line or field is forged, and no log flooded.
#pragma once

#include <spdlog/common.h>
#include <spdlog/fmt/fmt.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
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

// The bounds of the log. LogLimit: how much of it the lines about one user fill. Anybody can cause
// such lines, by requests in a loop or by jobs without end, so they have a limit for each minute.
// Further lines of that minute are counted.
//
// Warnings and errors have a limit of their own: a flood of other lines does not hide them.
// Pure. Test: tests/unit/test_log.cpp.

inline constexpr std::size_t k_longest_line = 2048;  // bytes of its text, escapes included
// A job's own lines have about 1.6 kB, so this is enough for ten jobs of a user each second.
inline constexpr std::size_t k_log_bytes_a_minute = std::size_t{1} << 20;

enum class Weight { light, heavy };  // heavy: warnings and errors

class LogLimit {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  struct Verdict {
    bool is_admitted = true;
    std::uint64_t left_out = 0;  // of an earlier minute, to be reported now
  };

  Verdict ask(uid_t user, Weight weight, std::size_t bytes, Moment now);

 private:
  struct Minute {
    Moment begun;
    std::size_t bytes = 0;
    std::uint64_t left_out = 0;
  };
  Minute& minute_of(uid_t user, Weight weight, Moment now);

  std::map<std::pair<uid_t, Weight>, Minute> minutes_;
};

// Log lines about refused callers. Anybody can cause them, so their number is bounded. Further
// refusals are counted, and the next line that is written reports their number.

// `who`: "uid=1000", "peer 10.0.0.1".
void log_refusal(const std::string& who, const std::string& what);

}  // namespace nodestage
