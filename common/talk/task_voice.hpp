// TaskVoice: what a waiting task writes to the job's own output.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/talk/progress_printer.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {

// Only one task per node speaks; the others are silent. In a step that waits for several nodes, the
// first node reports the progress of all (`aloud`), the others only their results.
enum class Speech { silent, results, aloud };

// Writes "nodestage: NODE: ..." lines to a borrowed descriptor. With `moves_lines`, for a terminal
// that obeys escape codes (common/os/terminal.hpp), progress is one line that is redrawn, and
// cleared before other text and at the end; else it is one line per `interval`. Text is made
// printable here. A failed write is ignored, since the job's output is the user's concern.
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
  void move_line(const std::string& text);

  Speech speech_;
  int fd_;
  std::string prefix_;
  std::chrono::seconds interval_;
  bool moves_lines_;
  bool line_shown_ = false;
  Deadline next_line_;
  ProgressPrinter printer_;
  Listener listener_ = nullptr;
};

}  // namespace nodestage
