#include <pwd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/os/wall_clock.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/option_text.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

bool is_name_character(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns the position of "$NAME" or "${NAME}" at `begin`; nullopt for a plain dollar sign.
std::optional<TextRange> variable_at(std::string_view text, std::size_t begin) {
  if (text[begin] != '$') return {};
  std::size_t end = begin + 1;
  const bool is_braced = text.substr(end).starts_with('{');
  if (is_braced) ++end;
  const std::size_t name = end;
  while (end < text.size() && is_name_character(text[end])) ++end;
  if (end == name) return {};
  return TextRange{begin, end + (is_braced && text.substr(end).starts_with('}') ? 1 : 0)};
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

Result<OptionCut> cut_option(std::string_view text, TextRange& at, std::string_view example) {
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

Status check_braces(const OptionPart& part, TextRange& at) {
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

Result<std::string> absolute_path(const std::string& path, const SubmitContext& place) {
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

Status check_variables(const OptionPart& part, std::string_view text, TextRange& at) {
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
  for (const std::string_view name : parts_of(path, '/')) {
    if (name.empty() || name == ".") continue;
    if (!result.empty()) result += '/';
    result += name;
  }
  return result;
}

struct KeyText {
  std::string key;
  std::string value;
  bool has_value = false;

  [[nodiscard]] std::string text() const { return key + "=" + value; }
};

namespace {

KeyText split_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, "", false};
  return {text.substr(0, equals), text.substr(equals + 1), true};
}

// Adds the options that have the key.
template <typename Item>
void add_owner(std::string& owners, const std::string& key) {
  const auto& keys = Option<Item>::keys;
  if (std::any_of(std::begin(keys), std::end(keys),
                  [&](const auto& row) { return key == row.name; }))
    owners.append(owners.empty() ? "" : " and ").append("--").append(Option<Item>::name);
}

template <typename Item>
Error unknown_key(const std::string& key) {
  if (key.empty())
    return wrong_form(
        "a key is missing after a comma: remove the comma, or write \\, for one "
        "inside a path",
        Option<Item>::example);
  std::string owners;
  add_owner<DatasetItem>(owners, key);
  add_owner<OutputItem>(owners, key);
  add_owner<VenvItem>(owners, key);
  std::vector<std::string_view> names;
  std::string keys;
  for (const auto& row : Option<Item>::keys) {
    const std::string_view value = row.value;
    keys.append(names.empty() ? "" : ", ").append(row.name);
    if (!value.empty() && row.bare.empty()) keys += '=';
    names.emplace_back(row.name);
  }
  const std::string meant =
      owners.empty() ? did_you_mean(key, names) : ": it is a key of " + owners;
  const bool is_pattern =
      std::is_same_v<Item, DatasetItem> && key.find_first_of("*?[") != std::string::npos;
  const char* const hint = !meant.empty() ? ""
                           : is_pattern   ? "; give each pattern its key: include=A,include=B"
                                          : "; write \\, for a comma inside a path";
  return Error{EINVAL, "unknown key '" + key + "'" + meant + hint,
               "keys: " + keys + "; more: man 7 nodestage"};
}

// "always, success or failure"
std::string list_of(const std::vector<std::string_view>& words) {
  std::string list;
  for (const auto& word : words) {
    if (&word != &words.front()) list += &word == &words.back() ? " or " : ", ";
    list += word;
  }
  return list;
}

Result<unsigned> to_word(const KeyText& entry, std::span<const Word> words,
                         std::string_view example) {
  if (const auto value = value_of(words, entry.value)) return *value;
  const std::vector<std::string_view> names = texts_of(words);
  // A word that is the only one needs no guess.
  const std::string meant = names.size() > 1 ? did_you_mean(entry.value, names) : "";
  return wrong_form(entry.text() + meant + ": only " + list_of(names), example);
}

// Sets a value. FlagForm is the only form without one.
template <typename Item>
struct SetValue {
  Item& item;
  const KeyText& entry;
  const SubmitContext& place;

  Status operator()(const FlagForm<Item>& form) const {
    item.*form.member = true;
    return {};
  }

  Status operator()(const WordForm<Item>& form) const {
    TRY_ASSIGN(const unsigned value, to_word(entry, form.words, Option<Item>::example));
    form.set(item, value);
    return {};
  }

  Status operator()(const NumberForm<Item>& form) const {
    TRY_ASSIGN(item.*form.member, form.read(entry, form.least, form.most));
    return {};
  }

  Status operator()(const TextForm<Item>& form) const {
    TRY_ASSIGN(item.*form.member, form.read(entry.value, place));
    return {};
  }

  Status operator()(const ListForm<Item>& form) const { return form.add(entry, item.*form.member); }
};

}  // namespace

Result<unsigned> read_count(const KeyText& entry, unsigned least, unsigned most) {
  const auto value = parse_number<unsigned>(entry.value);
  if (value && *value >= least && *value <= most) return *value;
  return Error{EINVAL, entry.text() + ": a number from " + std::to_string(least) + " to " +
                           (most < 10'000 ? std::to_string(most) : human_count(most)) +
                           " is needed"};
}

Result<unsigned> read_seconds(const KeyText& entry, unsigned least, unsigned most) {
  const auto seconds = parse_duration(entry.value);
  if (seconds && *seconds >= least && *seconds <= most) return static_cast<unsigned>(*seconds);
  return Error{EINVAL, entry.text() + ": a time from " + std::to_string(least) + " second to " +
                           std::to_string(most / k_day_s) +
                           " days is needed, such as 900, 90s, 15m, 1h or 2d"};
}

Result<std::string> read_variable(const std::string& value, const SubmitContext&) {
  return variable_name(value);
}

// "python3.11" and "3.11" are names, which are looked up in PATH, as a shell does.
Result<std::string> read_program(const std::string& value, const SubmitContext& place) {
  const bool is_version = value.find_first_not_of("0123456789.") == std::string::npos;
  const std::string name = is_version ? "python" + value : value;
  if (is_program_name(name)) return name;
  return absolute_path(value, place);
}

// Braces are several globs.
Status add_globs(const KeyText& entry, std::vector<std::string>& globs) {
  TRY_ASSIGN(const auto texts, brace_texts(entry.value));
  globs.insert(globs.end(), texts.begin(), texts.end());
  if (globs.size() <= k_max_request_items) return {};
  return Error{E2BIG, entry.key + "= has more than " + human_count(k_max_request_items) +
                          " globs (braces stand for several); write '*' for what varies"};
}

// "python/3.11+gcc" is two modules.
Status add_modules(const KeyText& entry, std::vector<std::string>& modules) {
  for (const std::string_view name : parts_of(entry.value, '+')) {
    if (name.empty() || name.starts_with('-'))
      return wrong_form(entry.key + "=: the name of a module is missing; several are joined by '+'",
                        Option<VenvItem>::example);
    modules.emplace_back(name);
  }
  return {};
}

std::string key_name(const std::string& text) { return split_key(text).key; }

template <typename Item>
Status set_key(Item& item, const std::string& text, const SubmitContext& place) {
  KeyText entry = split_key(text);
  for (const auto& row : Option<Item>::keys) {
    if (entry.key != row.name) continue;
    if (!entry.has_value) entry.value = row.bare;
    const bool is_flag = std::holds_alternative<FlagForm<Item>>(row.form);
    if (is_flag && entry.has_value)
      return wrong_form("the key '" + entry.key + "' takes no value", Option<Item>::example);
    if (!is_flag && entry.value.empty())
      return wrong_form("the key '" + entry.key + "' needs a value: " + entry.key + "=...",
                        Option<Item>::example);
    return std::visit(SetValue<Item>{item, entry, place}, row.form);
  }
  return unknown_key<Item>(entry.key);
}

template Status set_key(DatasetItem&, const std::string&, const SubmitContext&);
template Status set_key(OutputItem&, const std::string&, const SubmitContext&);
template Status set_key(VenvItem&, const std::string&, const SubmitContext&);

}  // namespace nodestage
