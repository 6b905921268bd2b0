#include "common/talk/task_voice.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// The speed is an average over the last few seconds, not one reading.
constexpr double k_speed_memory_ms = 5000;
constexpr std::size_t k_name_width = 60;

std::string queue_line(const Progress& progress) {
  const std::uint32_t jobs_ahead = progress.jobs_ahead;
  if (!progress.current.empty()) return "waiting for " + printable(progress.current);
  if (jobs_ahead == 0) return "waiting for its turn to stage on this node";
  if (jobs_ahead == 1) return "waiting for another job that stages on this node";
  return "waiting for " + human_count(jobs_ahead) + " other jobs that stage on this node";
}

std::string item_name(const Progress& progress) {
  const std::string name = shortened(printable(progress.current), k_name_width);
  if (progress.items <= 1) return name.empty() ? "staging" : name;
  const std::uint32_t number = std::min(progress.items_done, progress.items - 1) + 1;
  std::string text = "item " + human_count(number) + " of " + human_count(progress.items);
  return name.empty() ? text : text + ", " + name;
}

// "n1: a-long-name.tar: 1.2 of 4.0 GiB (30%)" as "n1: a-...ar: 1.2 of 4.0 GiB (30%)", or the
// figures alone.
std::string with_figures(const std::string& line, std::size_t width) {
  constexpr std::size_t k_least_name = 16;
  const std::size_t colon = line.rfind(": ");
  if (colon == std::string::npos) return shortened(line, width);
  const std::string figures = line.substr(colon + 2);
  if (figures.size() + 2 + k_least_name > width) return shortened(figures, width);
  return shortened(line.substr(0, colon), width - 2 - figures.size()) + ": " + figures;
}

std::string whole_seconds(double seconds) {
  if (seconds < 60) return std::to_string(static_cast<int>(std::ceil(seconds))) + " s";
  return human_duration(static_cast<std::uint64_t>(seconds * 1000));
}

}  // namespace

std::string percent(std::uint64_t part, std::uint64_t whole) {
  const double share = std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  return std::to_string(static_cast<int>(share * 100)) + "%";
}

std::string bytes_of(std::uint64_t part, std::uint64_t whole) {
  std::string first = human_bytes(part);
  const std::string second = human_bytes(whole);
  const std::size_t unit = first.rfind(' ');
  if (second.ends_with(first.substr(unit))) first.resize(unit);
  return first + " of " + second;
}

void ProgressPrinter::update_speed(const Progress& progress) {
  if (progress.elapsed_ms < last_ms_ || progress.bytes_read < last_bytes_) *this = {};
  const auto passed = static_cast<double>(progress.elapsed_ms - last_ms_);
  if (passed <= 0) return;
  const double now = static_cast<double>(progress.bytes_read - last_bytes_) * 1000 / passed;
  const double weight = bytes_per_second_ == 0 ? 1 : 1 - std::exp(-passed / k_speed_memory_ms);
  bytes_per_second_ += weight * (now - bytes_per_second_);
  last_bytes_ = progress.bytes_read;
  last_ms_ = progress.elapsed_ms;
}

std::string ProgressPrinter::time_left(const Progress& progress) const {
  if (progress.bytes_total <= progress.bytes_read) return {};
  const auto rest = static_cast<double>(progress.bytes_total - progress.bytes_read);
  const double seconds = rest / bytes_per_second_;
  if (seconds > 100 * 3600) return {};  // no progress: a number would be invented
  return ", about " + whole_seconds(seconds) + " left";
}

std::string ProgressPrinter::staging_line(const Progress& progress) const {
  const bool is_counted = progress.bytes_total + progress.bytes_read + progress.files > 0;
  // A virtual environment's build has no figures; the installer's output is part of its name.
  if (!is_counted && !progress.current.empty()) return item_name(progress);
  std::string text = item_name(progress) + ": ";
  if (progress.bytes_total > 0) {
    text += bytes_of(progress.bytes_read, progress.bytes_total);
    if (progress.items > 1) text += " in all";
    text += " (" + percent(progress.bytes_read, progress.bytes_total) + ")";
  } else {
    text += human_bytes(progress.bytes_read) + " read";
  }
  if (bytes_per_second_ >= 1) {
    text += time_left(progress);
    text += ", " + human_bytes(static_cast<std::uint64_t>(bytes_per_second_)) + "/s";
  }
  return text + ", " + human_count(progress.files) + (progress.files == 1 ? " file" : " files");
}

std::string without_details(std::string line, std::size_t width) {
  while (line.size() > width) {
    const std::size_t detail = line.rfind(", ");
    if (detail == std::string::npos) return with_figures(line, width);
    line.resize(detail);
  }
  return line;
}

std::string ProgressPrinter::line(const Progress& progress) {
  const std::string others = printable(progress.others);
  if (progress.phase == ProgressPhase::others)
    return "ready here; " + (others.empty() ? "waiting for the job's other nodes" : others);
  return own_line(progress) + (others.empty() ? "" : "; " + others);
}

std::string ProgressPrinter::own_line(const Progress& progress) {
  switch (progress.phase) {
    case ProgressPhase::queued:
      return queue_line(progress);
    case ProgressPhase::starting:
      return "staging starts";
    case ProgressPhase::staging:
    case ProgressPhase::others:
      break;
  }
  update_speed(progress);
  return staging_line(progress);
}

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
