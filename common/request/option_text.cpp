#include "common/request/option_text.hpp"

#include <pwd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/request/option_mark.hpp"
#include "common/text/did_you_mean.hpp"
#include "common/text/name_pattern.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_dataset_example =
    "--stage-dataset=SOURCE[:DEST][,key[=value]]..., for example "
    "--stage-dataset=~/projects/data.tar:data,strip=1";
constexpr std::string_view k_venv_example =
    "--stage-venv=SOURCE[:DEST][,key[=value]]..., for example "
    "--stage-venv=~/projects/requirements.txt,module=python/3.11";
constexpr std::string_view k_output_example =
    "--stage-out=SOURCE:TARGET[,key[=value]]..., for example "
    "--stage-out=results:~/scratch/out_%j,when=success";

Error wrong(std::string what, std::string_view example) {
  return Error{EINVAL, what.append(" (the form is ").append(example).append(")")};
}

// A part with its escapes resolved, its position in the text, and that of its first $NAME.
struct Part {
  std::string text;
  TextPlace place;
  std::optional<TextPlace> variable = {};
};

bool is_name_character(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The position of "$NAME" or "${NAME}" at `begin`; nullopt for a plain dollar sign.
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

// The text split at unescaped separators.
struct Cut {
  std::vector<Part> paths;  // separated by ':'
  std::vector<Part> keys;   // after the first ','
};

// Every reader here keeps `at` on the part that it reads, so that a fault can mark it.
Result<Cut> cut_option(std::string_view text, TextPlace& at, std::string_view example) {
  Cut cut{{Part{}}, {}};
  Part* part = &cut.paths.back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\' && (next == ':' || next == ',' || next == '\\' || next == '$')) {
      part->text += next;
      ++i;
    } else if (c == '\\' && i + 1 == text.size()) {
      at = {i, i + 1};
      return wrong("a backslash at the end; write \\\\ for one", example);
    } else if (c == ',' || (c == ':' && cut.keys.empty())) {
      part = &(c == ',' ? cut.keys : cut.paths).emplace_back(Part{"", {i + 1, i + 1}});
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
    return wrong("too many ':'; write \\: for one inside a path", example);
  }
  return cut;
}

// Returns what `read(at)` makes of an option's text; marks `at` in its fault.
template <typename Read>
auto read_marked(std::string_view option, std::string_view text, Read read)
    -> decltype(read(std::declval<TextPlace&>())) {
  TextPlace at{0, text.size()};
  auto item = read(at);
  if (!item) return marked(option, text, at, item.error());
  return item;
}

Result<std::string> home_of(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return Error{EINVAL, "~" + user + ": no such user"};
  return std::string(entry->pw_dir);
}

// Makes a path absolute by text only: expands "~" and prepends the start directory; keeps "."
// and double slashes.
Result<std::string> absolute(const std::string& path, const SubmitPlace& place) {
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

// Refuses a variable in a path: nothing expands what Slurm reads from a script.
Status check_variables(const Part& part, std::string_view text, TextPlace& at) {
  at = part.place;
  if (!part.variable) return {};
  at = *part.variable;
  return Error{EINVAL, std::string(text.substr(at.begin, at.end - at.begin)) +
                           " is not expanded here: Slurm does not expand variables in #SBATCH "
                           "lines, and a shell does not expand them in single quotes. Write the "
                           "path itself (~ is expanded), or give the option on the command line; "
                           "for a dollar sign in a name, write \\$"};
}

// "./a//b/" → "a/b", since destinations and outputs' sources are compared as text.
std::string tidy(std::string_view path) {
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

struct KeyValue {
  std::string key;
  std::string value;
  bool has_value;
};

KeyValue split_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, "", false};
  return {text.substr(0, equals), text.substr(equals + 1), true};
}

Status needs_value(const KeyValue& entry, std::string_view example) {
  if (entry.has_value && !entry.value.empty()) return {};
  return wrong("the key '" + entry.key + "' needs a value: " + entry.key + "=...", example);
}

Status takes_none(const KeyValue& entry, std::string_view example) {
  if (!entry.has_value) return {};
  return wrong("the key '" + entry.key + "' takes no value", example);
}

Result<unsigned> to_strip(const std::string& text) {
  const auto value = parse_number<unsigned>(text);
  if (!value || *value > 1000)
    return Error{EINVAL, "strip=" + text + ": a number from 0 to 1000 is needed"};
  return *value;
}

Status set_dataset_key(DatasetItem& item, const KeyValue& entry) {
  const std::string& key = entry.key;
  if (key == "optional" || key == "async") {
    TRY(takes_none(entry, k_dataset_example));
    (key == "async" ? item.async : item.optional) = true;
    return {};
  }
  static constexpr std::array k_with_value{"extract", "strip", "include", "exclude", "name", "eof"};
  if (std::find(k_with_value.begin(), k_with_value.end(), key) == k_with_value.end()) {
    return wrong("unknown key '" + key + "'" +
                     did_you_mean(key, {"extract", "strip", "include", "exclude", "name",
                                        "optional", "async", "eof"}) +
                     "; known: extract=auto|no, strip=N, include=GLOB, exclude=GLOB, name=NAME, "
                     "optional, async, eof=optional; write \\, for a comma inside a path",
                 k_dataset_example);
  }
  TRY(needs_value(entry, k_dataset_example));
  if (key == "extract") {
    if (entry.value != "auto" && entry.value != "no") {
      return wrong("extract=" + entry.value + did_you_mean(entry.value, {"auto", "no"}) +
                       ": only auto or no",
                   k_dataset_example);
    }
    item.extract = entry.value == "no" ? Extract::no : Extract::automatic;
  } else if (key == "eof") {
    if (entry.value != "optional")
      return wrong("eof=" + entry.value + ": only optional", k_dataset_example);
    item.eof = TarEnd::optional;
  } else if (key == "strip") {
    TRY_ASSIGN(item.strip, to_strip(entry.value));
  } else if (key == "name") {
    item.name = variable_name(entry.value);
  } else {
    (key == "include" ? item.include : item.exclude).push_back(entry.value);
  }
  return {};
}

Status set_output_key(OutputItem& item, const KeyValue& entry) {
  if (entry.key == "pack" || entry.key == "optional") {
    TRY(takes_none(entry, k_output_example));
    (entry.key == "pack" ? item.pack : item.optional) = true;
    return {};
  }
  if (entry.key != "when") {
    return wrong("unknown key '" + entry.key + "'" +
                     did_you_mean(entry.key, {"when", "pack", "optional"}) +
                     "; known: when=always|success|failure, pack, optional; write \\, for a comma "
                     "inside a path",
                 k_output_example);
  }
  TRY(needs_value(entry, k_output_example));
  if (entry.value == "always")
    item.when = When::always;
  else if (entry.value == "success")
    item.when = When::success;
  else if (entry.value == "failure")
    item.when = When::failure;
  else
    return wrong("when=" + entry.value +
                     did_you_mean(entry.value, {"always", "success", "failure"}) +
                     ": only always, success or failure",
                 k_output_example);
  return {};
}

// "python/3.11+gcc" → two modules.
Result<std::vector<std::string>> to_modules(std::string_view text) {
  std::vector<std::string> modules;
  for (;;) {
    const std::size_t plus = text.find('+');
    const std::string_view name = text.substr(0, plus);
    if (name.empty() || name.starts_with('-'))
      return wrong("module=: the name of a module is missing; several are joined by '+'",
                   k_venv_example);
    modules.emplace_back(name);
    if (plus == std::string_view::npos) return modules;
    text.remove_prefix(plus + 1);
  }
}

Status set_venv_key(VenvItem& item, const KeyValue& entry, const SubmitPlace& place) {
  if (entry.key == "optional") {
    TRY(takes_none(entry, k_venv_example));
    item.optional = true;
    return {};
  }
  if (entry.key != "python" && entry.key != "module" && entry.key != "wheels") {
    return wrong("unknown key '" + entry.key + "'" +
                     did_you_mean(entry.key, {"python", "module", "wheels", "optional"}) +
                     "; known: python=PATH, module=NAME[+NAME]..., wheels=DIR, optional; write "
                     "\\, for a comma inside a path",
                 k_venv_example);
  }
  TRY(needs_value(entry, k_venv_example));
  if (entry.key == "module") {
    TRY_ASSIGN(auto modules, to_modules(entry.value));
    item.modules.insert(item.modules.end(), modules.begin(), modules.end());
  } else {
    TRY_ASSIGN((entry.key == "python" ? item.python : item.wheels), absolute(entry.value, place));
  }
  return {};
}

Error not_below(std::string_view what, const std::string& path) {
  return Error{EINVAL, std::string(what) + " '" + path +
                           "' must be a path below $SLURM_TMPDIR: relative, without '..', and not "
                           "starting with .nodestage" +
                           (path.starts_with('/') || path.starts_with('~')
                                ? " (HOST:PATH cannot be staged; write \\: for a colon in a path)"
                                : "")};
}

Result<std::string> to_destination(const std::string& path) {
  if (is_path_below(path) && !path.starts_with("~/")) return tidy(path);
  return not_below("the destination", path);
}

Result<DatasetItem> read_dataset(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const Cut cut, cut_option(text, at, k_dataset_example));
  DatasetItem item;
  TRY(check_variables(cut.paths[0], text, at));
  if (cut.paths[0].text.empty()) return wrong("no source is named", k_dataset_example);
  TRY_ASSIGN(item.source, absolute(cut.paths[0].text, place));
  if (cut.paths.size() == 2) {
    TRY(check_variables(cut.paths[1], text, at));
    TRY_ASSIGN(item.destination, to_destination(cut.paths[1].text));
  }
  for (const Part& key : cut.keys) {
    at = key.place;
    TRY(set_dataset_key(item, split_key(key.text)));
  }
  if (item.destination.empty() && !is_path_below(default_destination(item.source))) {
    at = cut.paths[0].place;
    return wrong("no name for the destination can be made from the source; give one after ':'",
                 k_dataset_example);
  }
  return item;
}

Result<OutputItem> read_output(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const Cut cut, cut_option(text, at, k_output_example));
  at = cut.paths[0].place;
  if (cut.paths.size() != 2 || cut.paths[0].text.empty() || cut.paths[1].text.empty()) {
    if (!cut.paths[0].text.empty()) at.begin = at.end;  // the target after it is missing
    return wrong("a source and a target are needed", k_output_example);
  }
  OutputItem item;
  std::string source = cut.paths[0].text;
  bool is_marked_below = false;
  for (const std::string_view prefix : {"$SLURM_TMPDIR/", "${SLURM_TMPDIR}/"}) {
    if (!source.starts_with(prefix)) continue;
    source.erase(0, prefix.size());
    is_marked_below = true;
  }
  if (!is_marked_below) TRY(check_variables(cut.paths[0], text, at));
  if (!is_path_below(source)) return not_below("the source", cut.paths[0].text);
  item.source = tidy(source);
  TRY(check_variables(cut.paths[1], text, at));
  TRY_ASSIGN(item.target, absolute(cut.paths[1].text, place));
  if (Status pattern = check_pattern(item.target); !pattern) {
    return wrong("the target '" + item.target + "' has " + pattern.error().what, k_output_example);
  }
  // A file that is an archive already is copied, whatever it is.
  const std::string_view suffix = archive_suffix(item.target);
  if (!is_writable_archive(suffix) && archive_suffix(item.source).empty())
    return wrong("archives of the kind " + std::string(suffix) + " cannot be written, only read",
                 k_output_example);
  for (const Part& key : cut.keys) {
    at = key.place;
    TRY(set_output_key(item, split_key(key.text)));
  }
  return item;
}

Result<VenvItem> read_venv(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const Cut cut, cut_option(text, at, k_venv_example));
  VenvItem item;
  TRY(check_variables(cut.paths[0], text, at));
  if (cut.paths[0].text.empty()) return wrong("no source is named", k_venv_example);
  TRY_ASSIGN(item.source, absolute(cut.paths[0].text, place));
  if (cut.paths.size() == 2) {
    TRY(check_variables(cut.paths[1], text, at));
    TRY_ASSIGN(item.destination, to_destination(cut.paths[1].text));
  }
  if (!is_venv_path(item.destination)) {
    return wrong(
        "the destination of an environment cannot hold quotes, '$', '`', ':', '\\' or "
        "control characters: it becomes a part of PATH and of shell scripts",
        k_venv_example);
  }
  for (const Part& key : cut.keys) {
    TRY(check_variables(key, text, at));
    TRY(set_venv_key(item, split_key(key.text), place));
  }
  return item;
}

Result<StageWait> read_wait(std::string_view text) {
  if (text == "all") return StageWait::all;
  if (text == "node") return StageWait::node;
  if (text == "none") return StageWait::none;
  return Error{EINVAL, "'" + std::string(text) + "'" + did_you_mean(text, {"all", "node", "none"}) +
                           ": only all, node or none, for example --stage-wait=node"};
}

}  // namespace

Result<DatasetItem> parse_dataset_option(std::string_view text, const SubmitPlace& place) {
  return read_marked("stage-dataset", text,
                     [&](TextPlace& at) { return read_dataset(text, place, at); });
}

Result<OutputItem> parse_output_option(std::string_view text, const SubmitPlace& place) {
  return read_marked("stage-out", text,
                     [&](TextPlace& at) { return read_output(text, place, at); });
}

Result<VenvItem> parse_venv_option(std::string_view text, const SubmitPlace& place) {
  return read_marked("stage-venv", text, [&](TextPlace& at) { return read_venv(text, place, at); });
}

Result<StageWait> parse_wait_option(std::string_view text) {
  return read_marked("stage-wait", text, [&](TextPlace&) { return read_wait(text); });
}

}  // namespace nodestage
