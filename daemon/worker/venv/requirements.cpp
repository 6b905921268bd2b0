#include "daemon/worker/venv/requirements.hpp"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 4 * 1024 * 1024;
constexpr std::size_t k_max_files = 100;

Result<std::string> read_requirements(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  return read_all(fd.get(), k_max_bytes);
}

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

// The next line without its comment, with continued lines joined.
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

struct Option {
  std::string name;
  std::string value;
};

struct Line {
  std::string requirement;  // the text before the first option
  std::vector<Option> options;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Parses "-r FILE", "-rFILE", "--requirement FILE", "--requirement=FILE"; quotes are removed.
Line parsed(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_blank(text[i])) continue;
    if (i == 0 || is_blank(text[i - 1])) words.emplace_back();
    if (text[i] != '"' && text[i] != '\'') words.back() += text[i];
  }
  Line line;
  for (const auto& word : words) {
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

// A long option's name can be shortened to as many letters as distinguish it.
bool is_option(const Option& option, std::string_view brief, std::string_view full,
               std::size_t least) {
  if (option.name == brief) return true;
  return option.name.size() >= least && full.starts_with(option.name);
}

bool ends_in_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [text](std::string_view end) { return text.ends_with(end); });
}

// The name, path, or address in a requirement.
std::string_view place_in(std::string_view line) {
  std::string_view place = line;
  if (const auto at = line.find(" @ "); at != std::string_view::npos) {
    place = trimmed(line.substr(at + 3), k_blanks);
  }
  place = place.substr(0, place.find_first_of(" ;"));
  return place.substr(0, place.find('#'));
}

// Whether it is a path or an address, and not a wheel.
bool is_source(std::string_view line) {
  const std::string_view place = place_in(line);
  if (ends_in_any(place, {".whl"})) return false;
  if (ends_in_any(place, {".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz"})) return true;
  return place.find("://") != std::string_view::npos || place.starts_with('.') ||
         place.starts_with('/') || place.find('/') != std::string_view::npos ||
         place.starts_with("file:");
}

bool wants_source(const Line& line) {
  for (const auto& option : line.options) {
    if (is_option(option, "-e", "--editable", 4)) return true;
    if (is_option(option, "", "--no-binary", 6)) return true;
  }
  return !line.requirement.empty() && is_source(line.requirement);
}

// Another file that pip reads, too: of requirements, or of constraints (which may name sources).
std::string file_in(const Option& option, const std::string& path) {
  static constexpr std::string_view k_scheme = "file://";
  if (!is_option(option, "-r", "--requirement", 7) && !is_option(option, "-c", "--constraint", 3))
    return {};
  const std::string& value = option.value;
  if (value.starts_with(k_scheme)) return value.substr(k_scheme.size());
  if (value.empty() || value.starts_with('/') || value.find("://") != std::string::npos)
    return value.starts_with('/') ? value : std::string();
  return path.substr(0, path.rfind('/') + 1) + value;
}

Status check(const std::string& path, std::set<std::string>& seen) {
  if (seen.size() >= k_max_files || !seen.insert(path).second) return {};
  const auto read = read_requirements(path);
  const std::string text = read ? with_newlines(*read) : "";
  for (std::string_view rest = text; !rest.empty();) {
    const std::string text_line = next_line(rest);
    const Line line = parsed(text_line);
    if (wants_source(line)) {
      return fault(
          EPERM,
          shown(path) + ": '" + shown(text_line) +
              "' is not a wheel: installing it would run code of its sources, which this "
              "site does not allow while a job is staged (venv.build = \"wheels-only\")",
          "Make a wheel of it (pip wheel --no-deps -w DIR ...), name that in the file, and "
          "give wheels=DIR");
    }
    for (const auto& option : line.options) {
      if (const std::string next = file_in(option, path); !next.empty()) TRY(check(next, seen));
    }
  }
  return {};
}

// Lists what a file and its options read. Anything that is not understood here makes it unknown.
class Listing {
 public:
  explicit Listing(const std::string& path) : directory_(directory_of(path)) { add_text(path); }

  [[nodiscard]] RequirementFiles take() { return std::move(files_); }

 private:
  static std::string directory_of(const std::string& path) {
    return path.substr(0, path.rfind('/') + 1);
  }

  void add_text(const std::string& path) {
    if (!add_new(files_.texts, path)) return;
    const auto read = read_requirements(path);
    if (!read || files_.texts.size() > k_max_files) return give_up(path, "cannot be read whole");
    const std::string text = with_newlines(*read);
    for (std::string_view rest = text; !rest.empty() && files_.unknown.empty();) {
      const std::string line = next_line(rest);
      if (line.find("${") != std::string::npos) return give_up(path, "contains a variable");
      add_line(parsed(line), path);
    }
  }

  void add_line(const Line& line, const std::string& path) {
    if (!line.requirement.empty()) add_requirement(line.requirement, path);
    for (const auto& option : line.options) add_option(option, path);
  }

  void add_option(const Option& option, const std::string& path) {
    static constexpr std::string_view k_harmless[] = {
        "--hash",        "--pre",       "--prefer-binary", "--require-hashes",
        "--only-binary", "--no-binary", "--no-index",      "--trusted-host"};
    if (const std::string next = file_in(option, path); !next.empty()) return add_text(next);
    const bool is_index =
        is_option(option, "-i", "--index-url", 4) || is_option(option, "", "--extra-index-url", 4);
    if (is_index && is_remote(option.value)) return;  // a build cannot reach it
    if (is_option(option, "-f", "--find-links", 4)) return add_directory(option.value, path);
    if (std::find(std::begin(k_harmless), std::end(k_harmless), option.name) ==
        std::end(k_harmless))
      give_up_content(path);
  }

  void add_directory(const std::string& value, const std::string& path) {
    if (value.empty() || value.find(':') != std::string::npos) return give_up_content(path);
    add_new(files_.directories, value.starts_with('/') ? value : directory_of(path) + value);
  }

  // Relative paths start where the build runs: in the directory of the first file.
  void add_requirement(const std::string& requirement, const std::string& path) {
    static constexpr std::string_view k_scheme = "file://";
    std::string place(place_in(requirement));
    if (is_source(requirement)) return give_up_content(path);
    if (!place.ends_with(".whl")) return;
    if (place.starts_with(k_scheme)) place.erase(0, k_scheme.size());
    const bool is_relative = !place.starts_with('/');
    if (place.find_first_of(":%") != std::string::npos ||
        (is_relative && directory_of(path) != directory_))
      return give_up_content(path);
    add_new(files_.wheels, is_relative ? directory_ + place : place);
  }

  static bool is_remote(std::string_view address) {
    return address.starts_with("https://") || address.starts_with("http://");
  }

  static bool add_new(std::vector<std::string>& paths, const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) return false;
    paths.push_back(path);
    return true;
  }

  void give_up(const std::string& path, std::string_view why) {
    if (files_.unknown.empty()) files_.unknown = shown(path) + " " + std::string(why);
  }
  void give_up_content(const std::string& path) {
    give_up(path, "names files whose content is not known");
  }

  const std::string directory_;
  RequirementFiles files_;
};

}  // namespace

RequirementFiles files_of_requirements(const std::string& path) { return Listing(path).take(); }

Status check_wheels_only(const std::string& path) {
  std::set<std::string> seen;
  return check(path, seen);
}

Status check_is_requirements(const std::string& path) {
  const auto text = read_requirements(path);
  if (!text) {
    return fault(
        text.error().code, shown(path) + ": cannot be read: " + text.error().text(),
        "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt");
  }
  const bool is_other = path.ends_with(".toml") || path.ends_with(".yml") ||
                        path.ends_with(".yaml") || path.ends_with(".lock") ||
                        path.ends_with("/Pipfile");
  if (!is_other && text->find('\0') == std::string::npos) return {};
  return fault(EINVAL, shown(path) + ": is not a requirements file",
               "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt "
               "(made by: pip freeze > requirements.txt)");
}

}  // namespace nodestage
