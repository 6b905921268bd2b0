#include "daemon/worker/venv/requirements.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_requirements_bytes = 4 * 1024 * 1024;
constexpr std::size_t k_max_requirement_files = 100;  // that include one another
constexpr std::string_view k_separators = " \t";

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
    const std::string_view part = take_part(text, '\n');
    more = part.ends_with('\\') && !trimmed(part, k_separators).starts_with('#');
    line += part.substr(0, part.size() - (more ? 1 : 0));
  }
  const std::size_t comment =
      line.starts_with('#') ? 0 : std::min(line.find(" #"), line.find("\t#"));
  return std::string(trimmed(std::string_view(line).substr(0, comment), k_separators));
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

// The lines of a requirements file, as pip reads them.
struct RequirementOption {
  std::string name;
  std::string value;

  // A long option's name can be shortened to `least` letters, which distinguish it.
  [[nodiscard]] bool is(std::string_view brief, std::string_view full, std::size_t least) const {
    return name == brief || (name.size() >= least && full.starts_with(name));
  }
};

struct RequirementLine {
  std::string text;         // without comment, continued lines joined
  std::string requirement;  // the text before the first option
  std::vector<RequirementOption> options;
};

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

// All lines that are not empty.
std::vector<RequirementLine> requirement_lines(std::string_view text) {
  const std::string unified = with_newlines(text);
  std::vector<RequirementLine> lines;
  for (std::string_view rest = unified; !rest.empty();) {
    if (const std::string line = next_line(rest); !line.empty())
      lines.push_back(requirement_line(line));
  }
  return lines;
}

// Returns the name, path, or address in a requirement.
std::string_view place_in(std::string_view requirement) {
  std::string_view place = requirement;
  if (const auto at = place.find(" @ "); at != std::string_view::npos) {
    place = trimmed(place.substr(at + 3), k_separators);
  }
  place = place.substr(0, place.find_first_of(" ;"));
  return place.substr(0, place.find('#'));
}

// Returns whether it is a path or an address, and not a wheel.
bool is_source(std::string_view requirement) {
  const std::string_view place = place_in(requirement);
  if (ends_in_any(place, {".whl"})) return false;
  if (ends_in_any(place, {".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz"})) return true;
  return place.find("://") != std::string_view::npos || place.starts_with('.') ||
         place.starts_with('/') || place.find('/') != std::string_view::npos ||
         place.starts_with("file:");
}

// Returns another file that pip reads because of an option in the file `path`: of requirements, or
// of constraints; "" for any other option, and for an address.
std::string included_file(const RequirementOption& option, const std::string& path) {
  if (!option.is("-r", "--requirement", 7) && !option.is("-c", "--constraint", 3)) return {};
  const std::string& value = option.value;
  if (value.starts_with(k_file_scheme)) return value.substr(k_file_scheme.size());
  if (value.empty() || value.starts_with('/') || value.find("://") != std::string::npos)
    return value.starts_with('/') ? value : std::string();
  return path.substr(0, path.rfind('/') + 1) + value;
}

bool wants_source(const RequirementLine& line) {
  for (const auto& option : line.options) {
    if (option.is("-e", "--editable", 4)) return true;
    if (option.is("", "--no-binary", 6)) return true;
  }
  return !line.requirement.empty() && is_source(line.requirement);
}

Error not_a_wheel(const std::string& path, const std::string& line) {
  return fault(EPERM,
               shown(path) + ": '" + shown(line) +
                   "' is not a wheel: installing it would run code of its sources, which this "
                   "site does not allow while a job is staged (venv.build = \"wheels-only\")",
               "Make a wheel of it (pip wheel --no-deps -w DIR ...), name that in the file, and "
               "give wheels=DIR");
}

// Returns whether "NAME @ file:///PATH" names what is not there.
bool is_missing_file(std::string_view requirement) {
  const std::string_view place = place_in(requirement);
  if (requirement.find(" @ ") == std::string_view::npos || !place.starts_with(k_file_scheme))
    return false;
  return ::access(percent_decoded(place.substr(k_file_scheme.size())).c_str(), F_OK) != 0 &&
         (errno == ENOENT || errno == ENOTDIR);
}

Error no_file(const std::string& path, const std::string& line) {
  return fault(ENOENT,
               shown(path) + ": '" + shown(line) + "' names a file that does not exist here",
               "Correct its path; or if it is a line of `pip freeze` for a package of conda, write "
               "the file with `pip list --format=freeze`");
}

constexpr std::string_view k_of_names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

struct Variable {
  std::size_t begin = 0;  // of "${NAME}" in its text
  std::size_t size = 0;
  std::string name;
};

std::optional<Variable> variable_in(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find("${", at)) != std::string_view::npos; at += 2) {
    const std::size_t end = text.find_first_not_of(k_of_names, at + 2);
    if (end == std::string_view::npos || end == at + 2 || text[end] != '}') continue;
    return Variable{at, end + 1 - at, std::string(text.substr(at + 2, end - at - 2))};
  }
  return {};
}

// Returns the first `${NAME}` in a text; "" if there is none.
std::string first_variable(std::string_view text) {
  const auto variable = variable_in(text, 0);
  return variable ? std::string(text.substr(variable->begin, variable->size)) : std::string();
}

// Calls visit(line as it is written, the same with the values of variables, path of its file), for
// each line of a file and of those that it includes, until that fails. What cannot be read is pip's
// to report.
class RequirementWalk {
 public:
  using Visit = std::function<Status(const RequirementLine& written,
                                     const RequirementLine& expanded, const std::string& path)>;
  RequirementWalk(std::vector<std::string> environment, Visit visit)
      : environment_(std::move(environment)), visit_(std::move(visit)) {}

  Status check_file(const std::string& path) {
    if (seen_.size() >= k_max_requirement_files || !seen_.insert(path).second) return {};
    const auto text = read_requirements(path);
    for (const auto& written : requirement_lines(text ? *text : "")) {
      const RequirementLine line = requirement_line(with_variables(written.text, environment_));
      TRY(visit_(written, line, path));
      for (const auto& option : line.options) {
        if (const std::string next = included_file(option, path); !next.empty())
          TRY(check_file(next));
      }
    }
    return {};
  }

 private:
  const std::vector<std::string> environment_;
  const Visit visit_;
  std::set<std::string> seen_;
};

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
    if (!read || files_.texts.size() > k_max_requirement_files)
      return give_up(path, "cannot be read whole");
    for (const auto& line : requirement_lines(*read)) {
      if (line.text.find("${") != std::string::npos) give_up(path, "contains a variable");
      if (!files_.unknown.empty()) return;
      add_line(line, path);
    }
  }

  void add_line(const RequirementLine& line, const std::string& path) {
    if (!line.requirement.empty()) add_requirement(line.requirement, path);
    for (const auto& option : line.options) add_option(option, path);
  }

  void add_option(const RequirementOption& option, const std::string& path) {
    static constexpr std::string_view k_harmless[] = {
        "--hash",        "--pre",       "--prefer-binary", "--require-hashes",
        "--only-binary", "--no-binary", "--no-index",      "--trusted-host"};
    if (const std::string next = included_file(option, path); !next.empty()) return add_text(next);
    const bool is_index =
        option.is("-i", "--index-url", 4) || option.is("", "--extra-index-url", 4);
    if (is_index && is_remote(option.value)) return;  // a build cannot reach it
    if (option.is("-f", "--find-links", 4)) return add_directory(option.value, path);
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
    std::string place(place_in(requirement));
    if (is_source(requirement)) return give_up_content(path);
    if (!place.ends_with(".whl")) return;
    if (place.starts_with(k_file_scheme)) place.erase(0, k_file_scheme.size());
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

// Also of "git+ssh://host/x". A file has one, too.
bool is_remote(std::string_view place) {
  const std::size_t end = place.find("://");
  if (end == std::string_view::npos) return false;
  const std::string_view scheme = place.substr(0, end);
  return !scheme.ends_with("file");
}

// What pip opens because of a line: not the addresses of indexes, which a build does not ask.
std::vector<std::string> places_of(const RequirementLine& line) {
  std::vector<std::string> places;
  if (!line.requirement.empty()) places.push_back(line.requirement);
  for (const auto& option : line.options) {
    if (option.is("-e", "--editable", 4) || option.is("-r", "--requirement", 7) ||
        option.is("-c", "--constraint", 3))
      places.push_back(option.value);
  }
  return places;
}

// An address can have a password or a token before its host; that of ssh has a name there.
std::string without_password(std::string line) {
  const std::size_t scheme = line.find("://");
  if (scheme == std::string::npos || line.substr(0, scheme).ends_with("ssh")) return line;
  const std::size_t begin = scheme + 3;
  const std::size_t at = line.substr(0, line.find_first_of("/ ", begin)).rfind('@');
  if (at != std::string::npos && at > begin) line.replace(begin, at - begin, "****");
  return line;
}

Error no_network(const std::string& path, const std::string& line) {
  return fault(ENETUNREACH,
               shown(path) + ": '" + shown(without_password(line)) +
                   "' is downloaded, and an environment is built on a node without a network",
               "Download it where there is a network (pip download or pip wheel -w DIR), write its "
               "name alone into the file, and give wheels=DIR");
}

Error no_variable(const std::string& path, const std::string& line, const std::string& variable) {
  return fault(EINVAL,
               shown(path) + ": '" + shown(line) + "': the build has no variable " + variable,
               "Write its value into the file. A variable reaches a build if it is exported where "
               "you submit and your site passes it on (venv_environment= in plugstack.conf)");
}

// Returns the part of an address that pip prints, without password, version, and hash.
std::string_view core_of(std::string_view place) {
  place.remove_prefix(place.find("://") + 3);
  const std::size_t at = place.substr(0, place.find('/')).find('@');
  if (at != std::string_view::npos) place.remove_prefix(at + 1);
  return place.substr(0, place.find_first_of(" #;@"));
}

// `log` is pip's. Only what it shows counts of a line with a marker.
Status check_line(const RequirementLine& written, const RequirementLine& line,
                  const std::string& path, std::string_view log) {
  const bool is_marked = written.requirement.find(';') != std::string::npos;
  const auto counts = [&](std::string_view part) {
    return !is_marked || log.find(part) != std::string_view::npos;
  };
  for (const std::string& place : places_of(line)) {
    const std::string variable = first_variable(place);
    if (!variable.empty() && counts(variable)) return no_variable(path, written.text, variable);
    if (is_remote(place) && counts(core_of(place))) return no_network(path, written.text);
  }
  if (!is_marked && is_missing_file(line.requirement)) return no_file(path, written.text);
  for (const auto& option : line.options) {
    const std::string variable =
        option.is("-f", "--find-links", 4) ? first_variable(option.value) : "";
    if (!variable.empty()) return no_variable(path, written.text, variable);
  }
  return {};
}

}  // namespace

Result<std::string> read_requirements(const std::string& path) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, k_open_source));
  TRY_ASSIGN(const std::string bytes, read_all(fd.get(), k_max_requirements_bytes));
  return utf8_of(bytes);
}

bool has_requirements(std::string_view text) { return !requirement_lines(text).empty(); }

RequirementFiles files_of_requirements(const std::string& path) { return Listing(path).take(); }

std::string with_variables(std::string_view text, const std::vector<std::string>& environment) {
  std::string result(text);
  for (auto variable = variable_in(result, 0); variable;) {
    const std::string value = value_in(environment, variable->name);
    const std::size_t size = value.empty() ? variable->size : value.size();
    if (!value.empty()) result.replace(variable->begin, variable->size, value);
    variable = variable_in(result, variable->begin + size);
  }
  return result;
}

Status check_wheels_only(const std::string& path) {
  const auto check = [](const RequirementLine& line, const RequirementLine&,
                        const std::string& file) -> Status {
    if (!wants_source(line)) return {};
    return is_missing_file(line.requirement) ? no_file(file, line.text)
                                             : not_a_wheel(file, line.text);
  };
  return RequirementWalk({}, check).check_file(path);
}

Status check_reach(const std::string& path, const std::vector<std::string>& environment,
                   std::string_view log) {
  const auto check = [log](const RequirementLine& written, const RequirementLine& line,
                           const std::string& file) {
    return check_line(written, line, file, log);
  };
  return RequirementWalk(environment, check).check_file(path);
}

}  // namespace nodestage
