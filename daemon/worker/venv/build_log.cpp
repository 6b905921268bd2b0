#include "daemon/worker/venv/build_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_shown_log = 4096;
constexpr std::size_t k_max_log = 64 * 1024 * 1024;
constexpr std::size_t k_shown_lines = 12;
constexpr std::size_t k_shown_bytes = 1500;

// Returns the last lines of a log that contain text, the last one first.
std::vector<std::string_view> last_words(std::string_view log, std::size_t most) {
  std::vector<std::string_view> lines;
  while (!log.empty() && lines.size() < most) {
    const std::size_t end = log.rfind('\n');
    const std::string_view line = log.substr(end == std::string_view::npos ? 0 : end + 1);
    log = log.substr(0, end == std::string_view::npos ? 0 : end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string text_of_file(const std::string& path, std::size_t most) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto text = read_all(fd->get(), most);
  return text ? *text : std::string();
}

std::string text_of_log(const std::string& path) { return text_of_file(path, k_max_log); }

std::string last_lines(std::string_view log) {
  const auto lines = last_words(log, k_shown_lines);
  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    text += "\n  | " + printable(shortened(*line, 300));
  }
  return text.size() <= k_shown_bytes ? text
                                      : "\n  | ..." + text.substr(text.size() - k_shown_bytes);
}

std::string missing_package(std::string_view log) {
  static constexpr std::string_view k_words = "No matching distribution found for ";
  const std::size_t at = log.rfind(k_words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = log.substr(at + k_words.size());
  return std::string(rest.substr(0, rest.find_first_of(" \n=<>!~[;(")));
}

std::string searched_places(std::string_view log) {
  static constexpr std::string_view k_words = "Looking in links: ";
  const std::size_t at = log.find(k_words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = log.substr(at + k_words.size());
  return printable(shortened(rest.substr(0, rest.find('\n')), 600));
}

std::string said_last(const std::string& path) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0) return {};
  std::string text(k_shown_log, '\0');
  const off_t most = static_cast<off_t>(text.size());
  const ssize_t got =
      ::pread(fd->get(), text.data(), text.size(), std::max<off_t>(0, info.st_size - most));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  const auto words = last_words(text, 1);
  return words.empty() ? "making it" : std::string(words.front());
}

}  // namespace nodestage
