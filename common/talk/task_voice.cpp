#include "common/talk/task_voice.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// The speed is an average over the last few seconds, not one reading.
constexpr double k_speed_memory_ms = 5000;
constexpr std::size_t k_name_width = 60;
// Shorter staging shows no progress line.
constexpr std::chrono::seconds k_first_line{2};
constexpr std::chrono::milliseconds k_moving_interval{250};
constexpr char k_clear_line[] = "\r\x1b[K";

std::string item_name(const Progress& progress) {
  const std::string name = shortened(printable(progress.current), k_name_width);
  return progress.items <= 1 && name.empty() ? "staging" : name;
}

std::string item_number(const Progress& progress) {
  if (progress.items <= 1) return {};
  const std::uint32_t number = std::min(progress.items_done, progress.items - 1) + 1;
  return "item " + human_count(number) + " of " + human_count(progress.items);
}

// The parts that there are.
std::string joined(const std::string& first, const char* between, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : between) + second;
}

std::string figures_of(const ProgressPrinter::Line& line) {
  return line.share.empty() ? line.amount : line.amount + " (" + line.share + ")";
}

std::size_t terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
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
  return "about " + whole_seconds(seconds) + " left";
}

ProgressPrinter::Line ProgressPrinter::staging_parts(const Progress& progress) const {
  Line line;
  line.number = item_number(progress);
  line.name = item_name(progress);
  const bool is_counted = progress.bytes_total + progress.bytes_read + progress.files > 0;
  // A virtual environment's build has no figures; the installer's output is part of its name.
  if (!is_counted && !progress.current.empty()) return line;
  if (progress.bytes_total > 0) {
    line.amount = bytes_of(progress.bytes_read, progress.bytes_total);
    if (progress.items > 1) line.amount += " in all";
    line.share = percent(progress.bytes_read, progress.bytes_total);
  } else {
    line.amount = human_bytes(progress.bytes_read) + " read";
  }
  if (bytes_per_second_ >= 1) {
    const std::string left = time_left(progress);
    if (!left.empty()) line.details.push_back(left);
    line.details.push_back(human_bytes(static_cast<std::uint64_t>(bytes_per_second_)) + "/s");
  }
  line.details.push_back(counted(progress.files, "file", "files"));
  return line;
}

std::string ProgressPrinter::Line::text() const {
  std::string text = joined(joined(number, ", ", name), ": ", figures_of(*this));
  for (const std::string& detail : details) text += ", " + detail;
  return joined(text, "; ", others);
}

std::string ProgressPrinter::Line::within(const std::string& prefix, std::size_t width) const {
  constexpr std::size_t k_least_name = 10;
  const std::string figures = figures_of(*this);
  Line line = *this;
  if ((prefix + line.text()).size() <= width) return prefix + line.text();
  if (figures.empty())
    return shortened(prefix + joined(joined(number, ", ", name), "; ", others), width);
  line.others.clear();
  while (!line.details.empty() && (prefix + line.text()).size() > width) line.details.pop_back();
  if ((prefix + line.text()).size() > width) line.number.clear();
  if ((prefix + line.text()).size() <= width) return prefix + line.text();
  const std::size_t taken = prefix.size() + 2 + figures.size();
  if (taken + k_least_name <= width)
    return prefix + shortened(name, width - taken) + ": " + figures;
  for (const std::string& text : {prefix + figures, figures, share.empty() ? amount : share})
    if (text.size() <= width) return text;
  return shortened(share.empty() ? amount : share, width);
}

ProgressPrinter::Line ProgressPrinter::parts(const Progress& progress) {
  const std::string others = printable(progress.others);
  Line line;
  if (progress.phase == ProgressPhase::others) {
    line.name = "ready here";
    line.others = others.empty() ? "waiting for the job's other nodes" : others;
    return line;
  }
  line = own_parts(progress);
  line.others = others;
  return line;
}

ProgressPrinter::Line ProgressPrinter::own_parts(const Progress& progress) {
  Line line;
  switch (progress.phase) {
    case ProgressPhase::queued:
      line.name = queue_line(progress.current, progress.jobs_ahead);
      return line;
    case ProgressPhase::starting:
      line.name = "staging starts";
      return line;
    case ProgressPhase::staging:
    case ProgressPhase::others:
      break;
  }
  update_speed(progress);
  return staging_parts(progress);
}

std::chrono::milliseconds pause_of_lines(std::chrono::milliseconds interval,
                                         std::chrono::milliseconds passed) {
  constexpr std::chrono::milliseconds k_most = std::chrono::minutes(5);
  return std::max(interval, std::min(passed / 5, k_most));
}

// Only such a line has a number of files after what has been read.
bool is_progress(std::string_view line) {
  const std::size_t end = std::min(line.find("; "), line.size());
  const std::string_view own = line.substr(0, end);
  const bool has_files = own.ends_with(" file") || own.ends_with(" files");
  return has_files && (own.find("%), ") != std::string_view::npos ||
                       own.find(" read, ") != std::string_view::npos);
}

TaskVoice::TaskVoice(Speech speech, int fd, bool moves_lines, std::string_view node,
                     std::chrono::seconds interval)
    : speech_(speech),
      fd_(fd),
      prefix_("nodestage: " + printable(node) + ": "),
      interval_(interval),
      moves_lines_(speech == Speech::aloud && moves_lines),
      begun_(Clock::now()),
      next_line_(begun_ + std::min(interval, k_first_line)) {}

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

void TaskVoice::move_line(const ProgressPrinter::Line& line) {
  write(k_clear_line + line.within(prefix_, terminal_width(fd_) - 1));
  line_shown_ = true;
}

void TaskVoice::progress(const Progress& progress) {
  if (speech_ != Speech::aloud) return;
  const ProgressPrinter::Line line = printer_.parts(progress);
  if (listener_ != nullptr) listener_(line.text());
  if (moves_lines_) return move_line(line);
  const auto now = Clock::now();
  if (now < next_line_) return;
  say(line.text());
  using std::chrono::milliseconds;
  next_line_ =
      now + pause_of_lines(interval_, std::chrono::duration_cast<milliseconds>(now - begun_));
}

bool obeys_escapes(int fd, std::string_view type) { return ::isatty(fd) == 1 && type != "dumb"; }

bool obeys_escapes(int fd) { return obeys_escapes(fd, own_variable("TERM")); }

bool shows_colour() { return obeys_escapes(STDOUT_FILENO) && own_variable("NO_COLOR").empty(); }

std::string inked(const std::string& text, Ink ink) {
  switch (ink) {
    case Ink::red:
      return "\x1b[31m" + text + "\x1b[0m";
    case Ink::yellow:
      return "\x1b[33m" + text + "\x1b[0m";
    case Ink::plain:
      break;
  }
  return text;
}

}  // namespace nodestage
