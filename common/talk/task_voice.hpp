// TaskVoice: what a waiting task writes to the job's own output.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/daemon_client.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// ProgressPrinter: formats the daemon's progress records for people.
// Keeps the state for the speed between calls; prints nothing and reads no clock. Lines contain no
// newline and no control characters.
//   "data.tar.gz: 1.2 of 4.0 GiB (30%), about 9 s left, 310.0 MiB/s, 12,345 files"
//   "item 2 of 3, data.tar.gz: 1.2 of 4.0 GiB in all (30%), 12,345 files"
//   "item 3 of 3, requirements.txt: Installing collected packages: numpy"
//   "waiting for 2 other jobs that stage on this node"
//   "waiting for job 4711, which stages data.tar for this job, too"
//   "ready here; 1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)"
// If this node is not ready either, the line about the others follows its own progress.
class ProgressPrinter {
 public:
  // The parts of a line, for a screen that has no room for all of them.
  struct Line {
    std::string number;                // "item 2 of 3"
    std::string name;                  // "data.tar.gz", or all there is to say
    std::string amount;                // "1.2 of 4.0 GiB in all"
    std::string share;                 // "30%"
    std::vector<std::string> details;  // "about 9 s left", then what matters less
    std::string others;

    [[nodiscard]] std::string text() const;
    // With `prefix`, in `width` columns at most: the others, the details, the number, the name, the
    // prefix and the amount are left out one after the other, and the share goes last.
    [[nodiscard]] std::string within(const std::string& prefix, std::size_t width) const;
  };

  Line parts(const Progress& progress);
  std::string line(const Progress& progress) { return parts(progress).text(); }

 private:
  Line own_parts(const Progress& progress);
  void update_speed(const Progress& progress);
  [[nodiscard]] Line staging_parts(const Progress& progress) const;
  [[nodiscard]] std::string time_left(const Progress& progress) const;

  std::uint64_t last_bytes_ = 0;
  std::uint64_t last_ms_ = 0;
  double bytes_per_second_ = 0;  // 0: not known yet
};

// Returns "1.2 of 4.0 GiB", or "900.0 MiB of 1.2 GiB".
std::string bytes_of(std::uint64_t part, std::uint64_t whole);

// Returns "30%", never more than 100%.
std::string percent(std::uint64_t part, std::uint64_t whole);

// Between a command's lines of progress in a log, at first.
inline constexpr std::chrono::seconds k_line_interval{10};

// Returns how long a log waits for its next line of progress: `interval` at first, then a fifth of
// the time that has passed, and five minutes at most.
std::chrono::milliseconds pause_of_lines(std::chrono::milliseconds interval,
                                         std::chrono::milliseconds passed);

// Whether a line of a job's output, without "nodestage: ", is one of progress with figures.
bool is_progress(std::string_view line);

// Only one task per node speaks; the others are silent. In a step that waits for several nodes, the
// first node reports the progress of all (`aloud`), the others only their results.
enum class Speech { silent, results, aloud };

// Writes "nodestage: NODE: ..." lines to a borrowed descriptor. With `moves_lines`, for a terminal
// that obeys escape codes, progress is one line that is redrawn, and
// cleared before other text and at the end; else it is one line per `interval`, and less often as
// it lasts. Text is made printable here. A failed write is ignored, since the job's output is the
// user's concern.
class TaskVoice {
 public:
  TaskVoice(Speech speech, int fd, bool moves_lines, std::string_view node,
            std::chrono::seconds interval);
  TaskVoice(const TaskVoice&) = delete;
  TaskVoice& operator=(const TaskVoice&) = delete;
  ~TaskVoice() { clear(); }

  void say(std::string_view text);  // can contain several lines
  void progress(const Progress& progress);
  void clear();  // removes the redrawn line

  // Gets the text of each progress, also of those that are not written.
  using Listener = void (*)(std::string_view text);
  void set_listener(Listener listener) { listener_ = listener; }

  [[nodiscard]] bool shows_progress() const { return speech_ == Speech::aloud; }
  // Returns what every line begins with, after what clears the redrawn line.
  [[nodiscard]] std::string beginning() const;
  [[nodiscard]] bool speaks() const { return speech_ != Speech::silent; }
  // Returns how often the daemon should report, so that lines are written on time.
  [[nodiscard]] std::chrono::milliseconds report_interval() const;

 private:
  void write(std::string_view text) const;
  void move_line(const ProgressPrinter::Line& line);

  Speech speech_;
  int fd_;
  std::string prefix_;
  std::chrono::seconds interval_;
  bool moves_lines_;
  bool line_shown_ = false;
  Deadline begun_;
  Deadline next_line_;
  ProgressPrinter printer_;
  Listener listener_ = nullptr;
};

// Finds out whether a descriptor's reader interprets escape codes and colors.

// Returns whether `fd` is a terminal that can move its cursor, as TERM=dumb cannot.
bool obeys_escapes(int fd, std::string_view type);
// Does the same, with this process's TERM.
bool obeys_escapes(int fd);

// Returns whether to color: stdout is a terminal, and NO_COLOR (no-color.org) is not set.
bool shows_colour();

enum class Ink { plain, red, yellow };
std::string inked(const std::string& text, Ink ink);

}  // namespace nodestage
