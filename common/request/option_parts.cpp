#include "common/request/option_parts.hpp"

#include <pwd.h>

#include <algorithm>
#include <utility>

#include "common/text/glob_text.hpp"

namespace nodestage {
namespace {

bool is_name_character(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns the position of "$NAME" or "${NAME}" at `begin`; nullopt for a plain dollar sign.
std::optional<TextPlace> variable_at(std::string_view text, std::size_t begin) {
  if (text[begin] != '$') return {};
  std::size_t end = begin + 1;
  const bool is_braced = text.substr(end).starts_with('{');
  if (is_braced) ++end;
  const std::size_t name = end;
  while (end < text.size() && is_name_character(text[end])) ++end;
  if (end == name) return {};
  return TextPlace{begin, end + (is_braced && text.substr(end).starts_with('}') ? 1 : 0)};
}

// Returns the position after braces that start at `at`; 0: none do.
std::size_t after_braces(std::string_view text, std::size_t at) {
  const std::size_t end = end_of_braces(text, at);
  return end == std::string_view::npos ? 0 : end + 1;
}

Result<std::string> home_of(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return Error{EINVAL, "~" + user + ": no such user"};
  return std::string(entry->pw_dir);
}

}  // namespace

Error wrong_form(std::string what, std::string_view example) {
  return Error{EINVAL, std::move(what), "the form is " + std::string(example)};
}

Result<OptionCut> cut_option(std::string_view text, TextPlace& at, std::string_view example) {
  OptionCut cut{{OptionPart{}}, {}};
  OptionPart* part = &cut.paths.back();
  std::size_t braces = 0;  // what is before this is in braces: separators there do not separate
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (i >= braces) braces = after_braces(text, i);
    if (c == '\\' && next == ',' && i < braces) {
      part->text += "\\,";  // a comma of a name, among those that separate the names
      ++i;
    } else if (c == '\\' && (next == ':' || next == ',' || next == '\\' || next == '$')) {
      part->text += next;
      ++i;
    } else if (c == '\\' && i + 1 == text.size()) {
      at = {i, i + 1};
      return wrong_form("a backslash at the end; write \\\\ for one", example);
    } else if (i >= braces && (c == ',' || (c == ':' && cut.keys.empty()))) {
      part = &(c == ',' ? cut.keys : cut.paths).emplace_back(OptionPart{"", {i + 1, i + 1}});
    } else {
      if (!part->variable) part->variable = variable_at(text, i);
      part->text += c;
    }
    part->place.end = i + 1;
  }
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos && scheme > 0) {
    at = {0, text.size()};
    return Error{
        EINVAL,
        "a URL cannot be given here: sources and targets are paths on file systems that the nodes "
        "mount; download the data before you submit the job"};
  }
  if (cut.paths.size() > 2) {
    at = {cut.paths[2].place.begin - 1, cut.paths[2].place.begin};
    return wrong_form("too many ':'; write \\: for one inside a path", example);
  }
  return cut;
}

Status check_braces(const OptionPart& part, TextPlace& at) {
  at = part.place;
  const auto names = brace_texts(part.text);
  if (!names) return names.error();
  const auto is_whole = [](const std::string& name) {
    return name.starts_with('/') || name.starts_with('~');
  };
  if (part.text.starts_with('{') && std::any_of(names->begin(), names->end(), is_whole))
    return Error{EINVAL,
                 "braces cannot hold the start of a path: write ~/{a,b} instead of {~/a,~/b}, and "
                 "/p/{a,b} instead of {/p/a,/p/b}"};
  return {};
}

Result<std::string> absolute_path(const std::string& path, const SubmitPlace& place) {
  if (path.starts_with('/')) return path;
  if (!path.starts_with('~')) {
    return (place.directory == "/" ? "" : place.directory) + "/" + path;
  }
  const std::size_t slash = std::min(path.find('/'), path.size());
  std::string home = place.home;
  if (slash > 1) {
    TRY_ASSIGN(home, home_of(path.substr(1, slash - 1)));
  }
  if (home.empty()) return Error{EINVAL, "the home directory that ~ stands for is not known"};
  return home + path.substr(slash);
}

Status check_variables(const OptionPart& part, std::string_view text, TextPlace& at) {
  at = part.place;
  if (!part.variable) return {};
  at = *part.variable;
  return Error{EINVAL, std::string(text.substr(at.begin, at.end - at.begin)) +
                           " is not expanded here: Slurm does not expand variables in #SBATCH "
                           "lines, and a shell does not expand them in single quotes. Write the "
                           "path itself (~ is expanded), or give the option on the command line; "
                           "for a dollar sign in a name, write \\$"};
}

std::string tidy_path(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") {
      if (!result.empty()) result += '/';
      result += name;
    }
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return result;
}

}  // namespace nodestage
