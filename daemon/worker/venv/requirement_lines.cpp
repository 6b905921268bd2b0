#include "daemon/worker/venv/requirement_lines.hpp"

#include <fcntl.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/text/parsing.hpp"
#include "common/text/utf16.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 4 * 1024 * 1024;
constexpr std::string_view k_blanks = " \t";

// Replaces all kinds of line ends by one.
std::string with_newlines(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_pair = text[i] == '\r' && text.substr(i + 1).starts_with('\n');
    const bool is_end = text[i] == '\r' || text[i] == '\v' || text[i] == '\f';
    if (!is_pair) result += is_end ? '\n' : text[i];
  }
  return result;
}

// Returns the next line without its comment, with continued lines joined.
std::string next_line(std::string_view& text) {
  std::string line;
  for (bool more = true; more && !text.empty();) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    more = part.ends_with('\\') && !trimmed(part, k_blanks).starts_with('#');
    line += part.substr(0, part.size() - (more ? 1 : 0));
  }
  const std::size_t comment =
      line.starts_with('#') ? 0 : std::min(line.find(" #"), line.find("\t#"));
  return std::string(trimmed(std::string_view(line).substr(0, comment), k_blanks));
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Without quotes.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (is_blank(line[i])) continue;
    if (i == 0 || is_blank(line[i - 1])) words.emplace_back();
    if (line[i] != '"' && line[i] != '\'') words.back() += line[i];
  }
  return words;
}

bool ends_in_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [text](std::string_view end) { return text.ends_with(end); });
}

}  // namespace

bool RequirementOption::is(std::string_view brief, std::string_view full, std::size_t least) const {
  return name == brief || (name.size() >= least && full.starts_with(name));
}

Result<std::string> read_requirements(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, k_open_source));
  TRY_ASSIGN(const std::string bytes, read_all(fd.get(), k_max_bytes));
  return utf8_of(bytes);
}

// Parses "-r FILE", "-rFILE", "--requirement FILE", "--requirement=FILE".
RequirementLine requirement_line(std::string_view text) {
  RequirementLine line;
  line.text = text;
  for (const auto& word : words_of(text)) {
    if (word.starts_with("--")) {
      const std::size_t equals = std::min(word.find('='), word.size());
      line.options.push_back(
          {word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))});
    } else if (word.starts_with('-')) {
      line.options.push_back(
          {word.substr(0, 2), word.substr(std::min<std::size_t>(2, word.size()))});
    } else {
      std::string& all = line.options.empty() ? line.requirement : line.options.back().value;
      all.append(all.empty() ? "" : " ").append(word);
    }
  }
  return line;
}

std::vector<RequirementLine> requirement_lines(std::string_view text) {
  const std::string unified = with_newlines(text);
  std::vector<RequirementLine> lines;
  for (std::string_view rest = unified; !rest.empty();) {
    if (const std::string line = next_line(rest); !line.empty())
      lines.push_back(requirement_line(line));
  }
  return lines;
}

std::string_view place_in(std::string_view requirement) {
  std::string_view place = requirement;
  if (const auto at = place.find(" @ "); at != std::string_view::npos) {
    place = trimmed(place.substr(at + 3), k_blanks);
  }
  place = place.substr(0, place.find_first_of(" ;"));
  return place.substr(0, place.find('#'));
}

bool is_source(std::string_view requirement) {
  const std::string_view place = place_in(requirement);
  if (ends_in_any(place, {".whl"})) return false;
  if (ends_in_any(place, {".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz"})) return true;
  return place.find("://") != std::string_view::npos || place.starts_with('.') ||
         place.starts_with('/') || place.find('/') != std::string_view::npos ||
         place.starts_with("file:");
}

std::string included_file(const RequirementOption& option, const std::string& path) {
  static constexpr std::string_view k_scheme = "file://";
  if (!option.is("-r", "--requirement", 7) && !option.is("-c", "--constraint", 3)) return {};
  const std::string& value = option.value;
  if (value.starts_with(k_scheme)) return value.substr(k_scheme.size());
  if (value.empty() || value.starts_with('/') || value.find("://") != std::string::npos)
    return value.starts_with('/') ? value : std::string();
  return path.substr(0, path.rfind('/') + 1) + value;
}

}  // namespace nodestage
