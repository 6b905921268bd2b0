#include "common/request/option_text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/request/option_mark.hpp"
#include "common/request/option_parts.hpp"
#include "common/request/venv_environment.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/did_you_mean.hpp"
#include "common/text/duration.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
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

// Returns what `read(at)` makes of an option's text; marks `at` in its fault.
template <typename Read>
auto read_marked(std::string_view option, std::string_view text, Read read)
    -> decltype(read(std::declval<TextPlace&>())) {
  TextPlace at{0, text.size()};
  auto item = read(at);
  if (!item) return marked(option, text, at, item.error());
  return item;
}

Result<unsigned> to_strip(const std::string& text) {
  const auto value = parse_number<unsigned>(text);
  if (!value || *value > 1000)
    return Error{EINVAL, "strip=" + text + ": a number from 0 to 1000 is needed"};
  return *value;
}

Result<unsigned> to_newest(const std::string& text) {
  const auto value = parse_number<unsigned>(text);
  if (!value || *value == 0 || *value > k_max_newest)
    return Error{EINVAL, "newest=" + text + ": a number from 1 to " + human_count(k_max_newest) +
                             " is needed"};
  return *value;
}

Result<Extract> to_extract(const std::string& text) {
  const auto* const end = std::end(k_extract_names);
  const auto* const found = std::find(std::begin(k_extract_names), end, text);
  if (found != end) return static_cast<Extract>(found - std::begin(k_extract_names));
  return wrong_form("extract=" + text + did_you_mean(text, {std::begin(k_extract_names), end}) +
                        ": only auto, yes or no",
                    k_dataset_example);
}

Result<unsigned> to_interval(const std::string& text) {
  const auto seconds = parse_duration(text);
  if (!seconds || *seconds == 0 || *seconds > k_max_every_s)
    return Error{EINVAL, "every=" + text +
                             ": a time from 1 second to 30 days is needed, such as 900, 90s, 15m, "
                             "1h or 2d"};
  return static_cast<unsigned>(*seconds);
}

// Braces are several globs.
Status add_globs(const OptionKey& entry, std::vector<std::string>& globs) {
  TRY_ASSIGN(const auto texts, brace_texts(entry.value));
  globs.insert(globs.end(), texts.begin(), texts.end());
  if (globs.size() <= k_max_request_items) return {};
  return Error{E2BIG, entry.key + "= has more than " + human_count(k_max_request_items) +
                          " globs (braces stand for several); write '*' for what varies"};
}

Status set_dataset_key(DatasetItem& item, const OptionKey& entry) {
  const std::string& key = entry.key;
  if (key == "optional" || key == "async" || key == "shared") {
    TRY(takes_none(entry, k_dataset_example));
    (key == "async" ? item.async : key == "shared" ? item.shared : item.optional) = true;
    return {};
  }
  static constexpr std::array k_with_value{"extract", "strip", "newest", "include",
                                           "exclude", "name",  "eof",    "links"};
  if (std::find(k_with_value.begin(), k_with_value.end(), key) == k_with_value.end()) {
    return wrong_form(
        "unknown key '" + key + "'" +
            did_you_mean(key, {"extract", "strip", "newest", "include", "exclude", "name",
                               "optional", "async", "shared", "eof", "links"}) +
            "; known: extract=auto|yes|no, strip=N, newest=N, include=GLOB, exclude=GLOB, "
            "name=NAME, "
            "optional, async, shared, eof=optional, links=follow; write \\, for a comma inside a "
            "path",
        k_dataset_example);
  }
  TRY(needs_value(entry, k_dataset_example));
  if (key == "extract") {
    TRY_ASSIGN(item.extract, to_extract(entry.value));
  } else if (key == "eof") {
    if (entry.value != "optional")
      return wrong_form("eof=" + entry.value + ": only optional", k_dataset_example);
    item.eof = TarEnd::optional;
  } else if (key == "links") {
    if (entry.value != "keep" && entry.value != "follow")
      return wrong_form("links=" + entry.value + did_you_mean(entry.value, {"keep", "follow"}) +
                            ": only keep or follow",
                        k_dataset_example);
    item.links = entry.value == "follow" ? Links::follow : Links::keep;
  } else if (key == "strip") {
    TRY_ASSIGN(item.strip, to_strip(entry.value));
  } else if (key == "newest") {
    TRY_ASSIGN(item.newest, to_newest(entry.value));
  } else if (key == "name") {
    item.name = variable_name(entry.value);
  } else {
    return add_globs(entry, key == "include" ? item.include : item.exclude);
  }
  return {};
}

Status set_output_key(OutputItem& item, const OptionKey& entry) {
  if (entry.key == "pack" || entry.key == "optional") {
    TRY(takes_none(entry, k_output_example));
    (entry.key == "pack" ? item.pack : item.optional) = true;
    return {};
  }
  if (entry.key != "when" && entry.key != "every") {
    return wrong_form(
        "unknown key '" + entry.key + "'" +
            did_you_mean(entry.key, {"when", "every", "pack", "optional"}) +
            "; known: when=always|success|failure, every=TIME, pack, optional; write \\, for a "
            "comma inside a path",
        k_output_example);
  }
  TRY(needs_value(entry, k_output_example));
  if (entry.key == "every") {
    TRY_ASSIGN(item.every_s, to_interval(entry.value));
    return {};
  }
  if (entry.value == "always")
    item.when = When::always;
  else if (entry.value == "success")
    item.when = When::success;
  else if (entry.value == "failure")
    item.when = When::failure;
  else
    return wrong_form("when=" + entry.value +
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
      return wrong_form("module=: the name of a module is missing; several are joined by '+'",
                        k_venv_example);
    modules.emplace_back(name);
    if (plus == std::string_view::npos) return modules;
    text.remove_prefix(plus + 1);
  }
}

// "python3.11" and "3.11" are names, which are looked up in PATH, as a shell does.
Result<std::string> to_python(const std::string& text, const SubmitPlace& place) {
  const bool is_version = text.find_first_not_of("0123456789.") == std::string::npos;
  const std::string name = is_version ? "python" + text : text;
  if (is_program_name(name)) return name;
  return absolute_path(text, place);
}

Status set_venv_key(VenvItem& item, const OptionKey& entry, const SubmitPlace& place) {
  if (entry.key == "optional" || entry.key == "shared") {
    TRY(takes_none(entry, k_venv_example));
    (entry.key == "shared" ? item.shared : item.optional) = true;
    return {};
  }
  if (entry.key != "python" && entry.key != "module" && entry.key != "wheels") {
    return wrong_form(
        "unknown key '" + entry.key + "'" +
            did_you_mean(entry.key, {"python", "module", "wheels", "optional", "shared"}) +
            "; known: python=PATH or NAME, module=NAME[+NAME]..., wheels=DIR, optional, shared; "
            "write "
            "\\, for a comma inside a path",
        k_venv_example);
  }
  TRY(needs_value(entry, k_venv_example));
  if (entry.key == "module") {
    TRY_ASSIGN(auto modules, to_modules(entry.value));
    item.modules.insert(item.modules.end(), modules.begin(), modules.end());
  } else if (entry.key == "python") {
    TRY_ASSIGN(item.python, to_python(entry.value, place));
  } else {
    TRY_ASSIGN(item.wheels, absolute_path(entry.value, place));
  }
  return {};
}

bool is_foreign(const std::string& path) { return path.starts_with('/') || path.starts_with('~'); }

Error not_below(std::string_view what, const std::string& path, const std::string& more = {}) {
  return Error{EINVAL, std::string(what) + " '" + path +
                           "' must be a path below $SLURM_TMPDIR: relative, without '..', and not "
                           "starting with .nodestage" +
                           more};
}

// Of an output's source: whether all that its braces stand for is.
bool are_below(const std::string& source) {
  const auto names = brace_texts(source);
  return is_path_below(source) && names &&
         std::all_of(names->begin(), names->end(),
                     [](const std::string& name) { return is_path_below(name); });
}

// "host:/p", where a file's name would have a suffix or a directory before it.
bool looks_like_host(const std::string& source) {
  return source.find('/') == std::string::npos && archive_suffix(source).empty() &&
         !is_glob(source);
}

// What to write instead of a destination that is not below the job directory.
std::string other_destination(const std::string& source, const std::string& path) {
  const std::string name = default_destination(source);
  if (path.find_first_not_of("./") == std::string::npos && path.find("..") == std::string::npos) {
    std::string text = "; it cannot be $SLURM_TMPDIR itself: without a destination, it is " + name;
    if (!archive_suffix(source).empty())
      text += "; if the archive holds one directory, " + source + ":" + name +
              ",strip=1 has what is in that one at $SLURM_TMPDIR/" + name;
    return text;
  }
  if (!is_foreign(path)) return {};
  if (looks_like_host(source) && !path.starts_with("/dev/")) return " (HOST:PATH cannot be staged)";
  const std::string last = tidy_path(path.substr(path.rfind('/', path.find_last_not_of('/')) + 1));
  return is_path_below(last) ? ", such as '" + last + "'; data go to the node's local disk" : "";
}

Result<std::string> to_destination(const std::string& source, const std::string& path) {
  if (is_path_below(path) && !path.starts_with("~/")) return tidy_path(path);
  return not_below("the destination", path, other_destination(source, path));
}

// A home directory is where results go to, and not where a job makes them. ("./~/x" names an entry
// "~" of the job directory.)
bool is_in_a_home(const std::string& path) {
  return path == "~" || (path.starts_with('~') && path.find('/') != std::string::npos);
}

// Whoever gives a path of the file system as the source has often given the target first.
Error no_output_source(const std::string& source, const std::string& target) {
  const bool is_swapped = is_foreign(source) && is_path_below(target) && !is_in_a_home(target);
  return not_below(
      "the source", source,
      is_swapped
          ? "; the source comes first, and then the target: --stage-out=" + target + ":" + source
          : "");
}

Result<DatasetItem> read_dataset(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, k_dataset_example));
  DatasetItem item;
  TRY(check_variables(cut.paths[0], text, at));
  if (cut.paths[0].text.empty()) return wrong_form("no source is named", k_dataset_example);
  TRY(check_braces(cut.paths[0], at));
  TRY_ASSIGN(item.source, absolute_path(cut.paths[0].text, place));
  if (cut.paths.size() == 2) {
    TRY(check_variables(cut.paths[1], text, at));
    TRY_ASSIGN(item.destination, to_destination(cut.paths[0].text, cut.paths[1].text));
  }
  TextPlace newest;
  for (const OptionPart& key : cut.keys) {
    at = key.place;
    TRY(set_dataset_key(item, split_key(key.text)));
    if (split_key(key.text).key == "newest") newest = at;
  }
  if (Status chooses = check_newest(item); !chooses) {
    at = newest;
    return std::move(chooses.error());
  }
  if (item.destination.empty() && !is_path_below(default_destination(item.source))) {
    at = cut.paths[0].place;
    return wrong_form("no name for the destination can be made from the source; give one after ':'",
                      k_dataset_example);
  }
  return item;
}

Result<OutputItem> read_output(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, k_output_example));
  at = cut.paths[0].place;
  if (cut.paths.size() != 2 || cut.paths[0].text.empty() || cut.paths[1].text.empty()) {
    if (!cut.paths[0].text.empty()) at.begin = at.end;  // the target after it is missing
    return wrong_form("a source and a target are needed", k_output_example);
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
  TRY(check_braces(cut.paths[0], at));
  if (!are_below(source) || (!is_marked_below && is_in_a_home(source)))
    return no_output_source(cut.paths[0].text, cut.paths[1].text);
  item.source = tidy_path(source);
  TRY(check_variables(cut.paths[1], text, at));
  TRY_ASSIGN(item.target, absolute_path(cut.paths[1].text, place));
  if (Status pattern = check_pattern(item.target); !pattern) {
    return wrong_form("the target '" + item.target + "' has " + pattern.error().what,
                      k_output_example);
  }
  // A file that is an archive already is copied, whatever it is.
  const Status written = check_written_archive(archive_suffix(item.target));
  if (!written && archive_suffix(item.source).empty())
    return wrong_form(written.error().what, k_output_example);
  TextPlace every;
  for (const OptionPart& key : cut.keys) {
    at = key.place;
    TRY(set_output_key(item, split_key(key.text)));
    if (split_key(key.text).key == "every") every = at;
  }
  if (const Status early = check_early(item); item.every_s != 0 && !early) {
    at = every;
    return Error{EINVAL,
                 "every= delivers while the job runs, and this output can only be delivered at its "
                 "end: " +
                     early.error().what +
                     "; remove every=, or name what you want earlier in a second --stage-out"};
  }
  return item;
}

Result<VenvItem> read_venv(std::string_view text, const SubmitPlace& place, TextPlace& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, k_venv_example));
  VenvItem item;
  TRY(check_variables(cut.paths[0], text, at));
  if (cut.paths[0].text.empty()) return wrong_form("no source is named", k_venv_example);
  TRY_ASSIGN(item.source, absolute_path(cut.paths[0].text, place));
  if (cut.paths.size() == 2) {
    TRY(check_variables(cut.paths[1], text, at));
    TRY_ASSIGN(item.destination, to_destination(cut.paths[0].text, cut.paths[1].text));
  }
  if (!is_venv_path(item.destination)) {
    return wrong_form(
        "the destination of an environment cannot hold quotes, '$', '`', ':', '\\' or "
        "control characters: it becomes a part of PATH and of shell scripts",
        k_venv_example);
  }
  for (const OptionPart& key : cut.keys) {
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
