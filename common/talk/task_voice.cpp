#include "common/talk/task_voice.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Shorter staging shows no progress line.
constexpr std::chrono::seconds k_first_line{2};
constexpr std::chrono::milliseconds k_moving_interval{250};
constexpr char k_clear_line[] = "\r\x1b[K";

std::size_t terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

TaskVoice::TaskVoice(Speech speech, int fd, bool moves_lines, std::string_view node,
                     std::chrono::seconds interval)
    : speech_(speech),
      fd_(fd),
      prefix_("nodestage: " + printable(node) + ": "),
      interval_(interval),
      moves_lines_(speech == Speech::aloud && moves_lines),
      next_line_(Clock::now() + std::min(interval, k_first_line)) {}

std::chrono::milliseconds TaskVoice::report_interval() const {
  if (moves_lines_) return k_moving_interval;
  return std::min<std::chrono::milliseconds>(interval_, k_first_line);
}

void TaskVoice::write(std::string_view text) const { static_cast<void>(write_all(fd_, text)); }

std::string TaskVoice::beginning() const { return (moves_lines_ ? k_clear_line : "") + prefix_; }

void TaskVoice::clear() {
  if (line_shown_) write(k_clear_line);
  line_shown_ = false;
}

void TaskVoice::say(std::string_view text) {
  if (!speaks()) return;
  clear();
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string lines = prefix_;
  for (const char c : printable(text, Newlines::keep)) {
    lines += c;
    if (c == '\n') lines += prefix_;
  }
  write(lines + '\n');
}

void TaskVoice::move_line(const std::string& text) {
  write(k_clear_line + without_details(prefix_ + text, terminal_width(fd_) - 1));
  line_shown_ = true;
}

void TaskVoice::progress(const Progress& progress) {
  if (speech_ != Speech::aloud) return;
  const std::string text = printer_.line(progress);
  if (listener_ != nullptr) listener_(text);
  if (moves_lines_) {
    move_line(text);
  } else if (Clock::now() >= next_line_) {
    say(text);
    next_line_ = Clock::now() + interval_;
  }
}

}  // namespace nodestage
