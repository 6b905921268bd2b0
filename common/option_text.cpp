#include "common/option_text.hpp"

#include <pwd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "common/name_pattern.hpp"

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

// The text cut at unescaped separators, escapes resolved.
struct Cut {
  std::vector<std::string> paths;  // separated by ':'
  std::vector<std::string> keys;   // after the first ','
};

Result<Cut> cut_option(std::string_view text, std::string_view example) {
  Cut cut{{""}, {}};
  std::string* part = &cut.paths.back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\' && (next == ':' || next == ',' || next == '\\')) {
      *part += next;
      ++i;
    } else if (c == '\\' && next == '\0') {
      return wrong("a backslash at the end; write \\\\ for one", example);
    } else if (c == ':' && cut.keys.empty()) {
      part = &cut.paths.emplace_back();
    } else if (c == ',') {
      part = &cut.keys.emplace_back();
    } else {
      *part += c;
    }
  }
  if (cut.paths.size() > 2) {
    return wrong("too many ':'; write \\: for one inside a path", example);
  }
  return cut;
}

Result<std::string> home_of(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return Error{EINVAL, "~" + user + ": no such user"};
  return std::string(entry->pw_dir);
}

// Absolute, by text only: "~" and the start directory; "." and doubled slashes stay as they are.
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

// "./a//b/" → "a/b": destinations and outputs' sources are compared as text.
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
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value > 1000) {
    return Error{EINVAL, "strip=" + text + ": a number from 0 to 1000 is needed"};
  }
  return value;
}

Status set_dataset_key(DatasetItem& item, const KeyValue& entry) {
  const std::string& key = entry.key;
  if (key == "optional" || key == "async") {
    TRY(takes_none(entry, k_dataset_example));
    (key == "async" ? item.async : item.optional) = true;
    return {};
  }
  static constexpr std::array k_with_value{"extract", "strip", "include", "exclude", "name"};
  if (std::find(k_with_value.begin(), k_with_value.end(), key) == k_with_value.end()) {
    return wrong("unknown key '" + key +
                     "'; known: extract=auto|no, strip=N, include=GLOB, exclude=GLOB, name=NAME, "
                     "optional, async; write \\, for a comma inside a path",
                 k_dataset_example);
  }
  TRY(needs_value(entry, k_dataset_example));
  if (key == "extract") {
    if (entry.value != "auto" && entry.value != "no") {
      return wrong("extract=" + entry.value + ": only auto or no", k_dataset_example);
    }
    item.extract = entry.value == "no" ? Extract::no : Extract::automatic;
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
  if (entry.key == "pack") {
    TRY(takes_none(entry, k_output_example));
    item.pack = true;
    return {};
  }
  if (entry.key != "when") {
    return wrong(
        "unknown key '" + entry.key +
            "'; known: when=always|success|failure, pack; write \\, for a comma inside a path",
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
    return wrong("when=" + entry.value + ": only always, success or failure", k_output_example);
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
    return wrong("unknown key '" + entry.key +
                     "'; known: python=PATH, module=NAME[+NAME]..., wheels=DIR, optional; write "
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
                           "' must be a name below $SLURM_TMPDIR: relative, without '..' and not "
                           "beginning with .nodestage"};
}

bool inside(const std::string& outer, const std::string& inner) {
  return inner == outer || inner.starts_with(outer + "/");
}

Status check_beside_venv(const DatasetItem& item, const VenvItem& venv) {
  const bool open_glob = item.destination.empty() && is_glob(item.source);
  const std::string taken = destination_of(item);
  if (open_glob || (!inside(taken, venv.destination) && !inside(venv.destination, taken)))
    return {};
  return Error{EEXIST, "'" + item.source + "' and the environment '" + venv.source +
                           "' would both go to $SLURM_TMPDIR/" +
                           (taken.size() < venv.destination.size() ? taken : venv.destination) +
                           "; give one of them another place: --stage-venv=SOURCE:DEST"};
}

}  // namespace

Result<DatasetItem> parse_dataset_option(std::string_view text, const SubmitPlace& place) {
  TRY_ASSIGN(const Cut cut, cut_option(text, k_dataset_example));
  DatasetItem item;
  if (cut.paths[0].empty()) return wrong("no source is named", k_dataset_example);
  TRY_ASSIGN(item.source, absolute(cut.paths[0], place));
  if (cut.paths.size() == 2) {
    if (!is_path_below(cut.paths[1])) return not_below("the destination", cut.paths[1]);
    item.destination = tidy(cut.paths[1]);
  }
  for (const auto& key : cut.keys) TRY(set_dataset_key(item, split_key(key)));
  if (item.destination.empty() && !is_path_below(default_destination(item.source))) {
    return wrong("no name for the destination can be made from the source; give one after ':'",
                 k_dataset_example);
  }
  return item;
}

Result<OutputItem> parse_output_option(std::string_view text, const SubmitPlace& place) {
  TRY_ASSIGN(const Cut cut, cut_option(text, k_output_example));
  if (cut.paths.size() != 2 || cut.paths[0].empty() || cut.paths[1].empty()) {
    return wrong("a source and a target are needed", k_output_example);
  }
  OutputItem item;
  std::string source = cut.paths[0];
  for (const std::string_view prefix : {"$SLURM_TMPDIR/", "${SLURM_TMPDIR}/"}) {
    if (source.starts_with(prefix)) source.erase(0, prefix.size());
  }
  if (!is_path_below(source)) return not_below("the source", cut.paths[0]);
  item.source = tidy(source);
  TRY_ASSIGN(item.target, absolute(cut.paths[1], place));
  if (Status pattern = check_pattern(item.target); !pattern) {
    return wrong("the target '" + item.target + "' has " + pattern.error().what, k_output_example);
  }
  for (const auto& key : cut.keys) TRY(set_output_key(item, split_key(key)));
  return item;
}

Result<VenvItem> parse_venv_option(std::string_view text, const SubmitPlace& place) {
  TRY_ASSIGN(const Cut cut, cut_option(text, k_venv_example));
  VenvItem item;
  if (cut.paths[0].empty()) return wrong("no source is named", k_venv_example);
  TRY_ASSIGN(item.source, absolute(cut.paths[0], place));
  if (cut.paths.size() == 2) {
    if (!is_path_below(cut.paths[1])) return not_below("the destination", cut.paths[1]);
    item.destination = tidy(cut.paths[1]);
  }
  if (!is_venv_path(item.destination)) {
    return wrong(
        "the destination of an environment cannot hold quotes, '$', '`', ':', '\\' or "
        "control characters: it becomes a part of PATH and of shell scripts",
        k_venv_example);
  }
  for (const auto& key : cut.keys) TRY(set_venv_key(item, split_key(key), place));
  return item;
}

std::string_view archive_suffix(std::string_view path) {
  static constexpr std::string_view k_suffixes[] = {
      ".tar",     ".tar.gz",   ".tgz",     ".taz",     ".tar.bz2", ".tbz",      ".tbz2",
      ".tar.xz",  ".txz",      ".tar.zst", ".tzst",    ".tar.lz4", ".tlz4",     ".cpio",
      ".cpio.gz", ".cpio.bz2", ".zip",     ".cpio.xz", ".7z",      ".cpio.zst", ".cpio.lz4"};
  std::string_view longest;
  for (const auto suffix : k_suffixes) {
    if (path.ends_with(suffix) && suffix.size() > longest.size()) longest = suffix;
  }
  return path.substr(path.size() - longest.size());
}

std::string default_destination(std::string_view source) {
  while (source.ends_with('/')) source.remove_suffix(1);
  std::string_view name = source.substr(source.rfind('/') + 1);
  const std::string_view suffix = archive_suffix(name);
  if (suffix.size() < name.size()) name.remove_suffix(suffix.size());
  return std::string(name);
}

std::string variable_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool kept = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += lower ? static_cast<char>(c - 'a' + 'A') : (kept ? c : '_');
  }
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') name.insert(0, 1, '_');
  return name;
}

bool is_glob(std::string_view path) { return path.find_first_of("*?[") != std::string_view::npos; }

std::string destination_of(const DatasetItem& item) {
  return item.destination.empty() ? default_destination(item.source) : item.destination;
}

Status check_together(const StageRequest& request) {
  if (request.datasets.size() + (request.venv ? 1 : 0) > k_max_request_items ||
      request.outputs.size() > k_max_request_items) {
    return Error{E2BIG, "more than " + std::to_string(k_max_request_items) + " of one option"};
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < request.datasets.size(); ++i) {
    const DatasetItem& item = request.datasets[i];
    const std::string destination = destination_of(item);
    for (std::size_t k = 0; k < i; ++k) {
      const DatasetItem& other = request.datasets[k];
      // Where a glob without a destination leads is known on the node only; the worker checks it.
      const bool open_glob = (item.destination.empty() && is_glob(item.source)) ||
                             (other.destination.empty() && is_glob(other.source));
      const std::string taken = destination_of(other);
      if (open_glob || (!inside(taken, destination) && !inside(destination, taken))) continue;
      return Error{EEXIST, "'" + other.source + "' and '" + item.source +
                               "' would both go to $SLURM_TMPDIR/" +
                               (destination.size() < taken.size() ? destination : taken) +
                               "; give one of them another place: --stage-dataset=SOURCE:DEST"};
    }
    if (request.venv) TRY(check_beside_venv(item, *request.venv));
    const std::string name = item.name.empty() ? variable_name(destination) : item.name;
    if (!names.insert(name).second) {
      return Error{EEXIST, "two datasets would be named by the variable NODESTAGE_DATASET_" + name +
                               "; give one of them another name: --stage-dataset=SOURCE,name=NAME"};
    }
  }
  return {};
}

}  // namespace nodestage
