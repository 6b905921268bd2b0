// TaskVoice: what a waiting task says in the job's own output.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/talk/progress_printer.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {

// Only one task of a node speaks; the others are silent. In a step of several nodes that waits for
// all of them, the first tells of the progress of all, the others of what they have done.
enum class Speech { silent, results, aloud };

// Writes "nodestage: NODE: ..." lines to a borrowed descriptor: where `moves_lines`, as on a
// terminal that obeys escape codes (common/os/terminal.hpp), progress is one moving line, cleared
// before anything else is said and at the end; else a line now and then. Text is made printable
// here. A failed write is ignored: the job's output is not ours to judge.
class TaskVoice {
 public:
  TaskVoice(Speech speech, int fd, bool moves_lines, std::string_view node,
            std::chrono::seconds interval);
  TaskVoice(const TaskVoice&) = delete;
  TaskVoice& operator=(const TaskVoice&) = delete;
  ~TaskVoice() { clear(); }

  void say(std::string_view text);  // may hold several lines
  void progress(const Progress& progress);
  void clear();  // ends a moving line

  [[nodiscard]] bool speaks() const { return speech_ != Speech::silent; }
  // How often the daemon should report, so that lines come when they should.
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
};

}  // namespace nodestage
