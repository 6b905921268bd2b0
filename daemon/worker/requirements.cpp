#include "daemon/worker/requirements.hpp"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "common/file.hpp"
#include "daemon/worker/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 4 * 1024 * 1024;
constexpr int k_max_depth = 8;

Result<std::string> read_requirements(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  return read_all(fd.get(), k_max_bytes);
}

std::string_view trimmed(std::string_view text) {
  static constexpr std::string_view k_blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(k_blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blanks) - first + 1);
}

// The next line without its comment, continued ones joined.
std::string next_line(std::string_view& text) {
  std::string line;
  for (bool more = true; more && !text.empty();) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.ends_with('\r')) part.remove_suffix(1);
    more = part.ends_with('\\');
    line += part.substr(0, part.size() - (more ? 1 : 0));
  }
  const std::size_t comment = line.starts_with('#') ? 0 : line.find(" #");
  return std::string(trimmed(std::string_view(line).substr(0, comment)));
}

// The value of "-r FILE", "-rFILE", "--requirement FILE", "--requirement=FILE"; "" for another
// line.
std::string_view value_of(std::string_view line, std::string_view brief, std::string_view full) {
  if (line.starts_with(full)) {
    const std::string_view rest = line.substr(full.size());
    if (rest.starts_with('=') || rest.starts_with(' ')) return trimmed(rest.substr(1));
    return {};
  }
  if (line.starts_with(brief) && !line.starts_with("--")) return trimmed(line.substr(brief.size()));
  return {};
}

bool ends_in_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [text](std::string_view end) { return text.ends_with(end); });
}

// A path or an address, and no wheel.
bool is_source(std::string_view line) {
  std::string_view place = line;
  if (const auto at = line.find(" @ "); at != std::string_view::npos) {
    place = trimmed(line.substr(at + 3));
  }
  place = place.substr(0, place.find_first_of(" ;"));
  place = place.substr(0, place.find('#'));
  if (ends_in_any(place, {".whl"})) return false;
  if (ends_in_any(place, {".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz"})) return true;
  return place.find("://") != std::string_view::npos || place.starts_with('.') ||
         place.starts_with('/') || place.find('/') != std::string_view::npos ||
         place.starts_with("file:");
}

bool wants_source(std::string_view line) {
  if (!value_of(line, "-e", "--editable").empty()) return true;
  if (line.starts_with("--no-binary")) return true;
  return !line.empty() && !line.starts_with('-') && is_source(line);
}

Status check(const std::string& path, int depth) {
  const auto text = read_requirements(path);
  if (!text || depth > k_max_depth) return {};
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string line = next_line(rest);
    if (wants_source(line)) {
      return fault(
          EPERM,
          shown(path) + ": '" + shown(line) +
              "' is no wheel: installing it would run code of its sources, which this "
              "site does not allow while a job is staged (venv.build = \"wheels-only\")",
          "Make a wheel of it (pip wheel --no-deps -w DIR ...), name that in the file, and "
          "give wheels=DIR");
    }
    const std::string_view next = value_of(line, "-r", "--requirement");
    if (next.empty() || next.find("://") != std::string_view::npos) continue;
    const std::string directory = path.substr(0, path.rfind('/') + 1);
    TRY(check(next.starts_with('/') ? std::string(next) : directory + std::string(next),
              depth + 1));
  }
  return {};
}

}  // namespace

Status check_wheels_only(const std::string& path) { return check(path, 0); }

Status check_is_requirements(const std::string& path) {
  const auto text = read_requirements(path);
  if (!text) {
    return fault(
        text.error().code, shown(path) + ": cannot be read: " + text.error().what,
        "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt");
  }
  const bool is_other = path.ends_with(".toml") || path.ends_with(".yml") ||
                        path.ends_with(".yaml") || path.ends_with(".lock") ||
                        path.ends_with("/Pipfile");
  if (!is_other && text->find('\0') == std::string::npos) return {};
  return fault(EINVAL, shown(path) + ": is no requirements file",
               "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt "
               "(made by: pip freeze > requirements.txt)");
}

}  // namespace nodestage
