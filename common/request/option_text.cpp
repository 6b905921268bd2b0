#include "common/request/option_text.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/request/destinations.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

// With "sbatch: error: " and the longest option's name before it, a line fits a terminal.
constexpr std::size_t k_columns = 46;
constexpr std::string_view k_more = "...";

// How one character of the text is shown, or one byte that is not part of a character.
struct Cell {
  std::string shown;
  std::size_t columns;
  std::size_t begin;  // byte of the text
};

bool is_among(char32_t c, std::initializer_list<std::pair<char32_t, char32_t>> ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// As terminals do: combining marks take no column, East Asian characters and emoji take two.
std::size_t columns_of(char32_t c) {
  if (is_among(c, {{0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}})) return 0;
  return is_among(c, {{0x1100, 0x115f},
                      {0x2e80, 0xa4cf},
                      {0xac00, 0xd7a3},
                      {0xf900, 0xfaff},
                      {0xfe30, 0xfe6f},
                      {0xff00, 0xff60},
                      {0xffe0, 0xffe6},
                      {0x1f300, 0x1faff},
                      {0x20000, 0x3fffd}})
             ? 2
             : 1;
}

// Decodes one valid UTF-8 sequence.
char32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first;
  char32_t value = first & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1))
    value = value << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return value;
}

std::size_t sequence_length(unsigned char first) {
  if (first < 0xc2) return 1;
  return first < 0xe0 ? 2 : (first < 0xf0 ? 3 : 4);
}

std::vector<Cell> cells_of(std::string_view text) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < text.size();) {
    std::string_view piece = text.substr(i, sequence_length(static_cast<unsigned char>(text[i])));
    std::string shown = printable(piece);
    if (shown != piece) {  // not a character, or not a printable one
      piece = piece.substr(0, 1);
      shown = printable(piece);
      cells.push_back({shown, shown.size(), i});
    } else {
      cells.push_back({shown, columns_of(code_point(piece)), i});
    }
    i += piece.size();
  }
  return cells;
}

// Cells [first, last).
struct Window {
  std::size_t first;
  std::size_t last;
};

// At most k_columns around `place`: the place from its start, then what precedes it, then what
// follows.
Window window_around(const std::vector<Cell>& cells, TextRange place) {
  Window window{0, 0};
  while (window.first < cells.size() && cells[window.first].begin < place.begin) ++window.first;
  window.last = window.first;
  std::size_t columns = 0;
  const auto take = [&](std::size_t index) {
    if (columns + cells[index].columns > k_columns) return false;
    columns += cells[index].columns;
    return true;
  };
  while (window.last < cells.size() && cells[window.last].begin < place.end && take(window.last))
    ++window.last;
  while (window.first > 0 && take(window.first - 1)) --window.first;
  while (window.last < cells.size() && take(window.last)) ++window.last;
  return window;
}

std::string excerpt(std::string_view option, std::string_view text, TextRange place) {
  const auto cells = cells_of(text);
  const Window window = window_around(cells, place);
  std::string line = "  --" + std::string(option) + "=";
  if (window.first > 0) line += k_more;
  std::string mark(line.size(), ' ');
  std::size_t marked_columns = 0;
  for (std::size_t i = window.first; i < window.last; ++i) {
    line += cells[i].shown;
    if (cells[i].begin < place.begin) mark.append(cells[i].columns, ' ');
    if (cells[i].begin >= place.begin && cells[i].begin < place.end)
      marked_columns += cells[i].columns;
  }
  if (window.last < cells.size()) line += k_more;
  return line + "\n" + mark + "^" + std::string(std::max<std::size_t>(marked_columns, 1) - 1, '~');
}

}  // namespace

Error marked(std::string_view option, std::string_view text, TextRange place, const Error& cause) {
  return {cause.code, "--" + std::string(option) + ": " + printable(cause.what),
          printable(cause.advice), "\n" + excerpt(option, text, place)};
}

namespace {

// Returns what `read(at)` makes of an option's text; marks `at` in its fault.
template <typename Read>
auto read_marked(std::string_view option, std::string_view text, Read read)
    -> decltype(read(std::declval<TextRange&>())) {
  TextRange at{0, text.size()};
  auto item = read(at);
  if (!item) return marked(option, text, at, item.error());
  return item;
}

// What is below the job directory may be written with its variable. Returns the path in it; nothing
// if it does not begin so.
std::optional<std::string> after_job_directory(const std::string& path) {
  for (const std::string_view variable : {"$SLURM_TMPDIR", "${SLURM_TMPDIR}"}) {
    if (!path.starts_with(variable)) continue;
    const std::string rest = path.substr(variable.size());
    if (rest.empty()) return ".";
    if (rest.starts_with('/')) return rest.substr(1);
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

// Returns whether all that the braces of an output's source stand for is below.
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

// Returns what to write instead of a destination that is not below the job directory.
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

// `at` is on the destination then.
Result<std::string> read_destination(const OptionCut& cut, std::string_view text, TextRange& at) {
  const std::string& source = cut.paths[0].text;
  const std::string& path = cut.paths[1].text;
  const auto below = after_job_directory(path);
  if (!below) TRY(check_variables(cut.paths[1], text, at));
  at = cut.paths[1].place;
  const std::string name = below.value_or(path);
  if (is_path_below(name) && !name.starts_with("~/")) return tidy_path(name);
  return not_below("the destination", path, other_destination(source, name));
}

// A home directory is where results go to, and not where a job makes them. ("./~/x" names an entry
// "~" of the job directory.)
bool is_in_a_home(const std::string& path) {
  return path == "~" || (path.starts_with('~') && path.find('/') != std::string::npos);
}

// Whoever gives a path of the file system as the source has often given the target first.
Error no_output_source(const std::string& source, const std::string& target) {
  std::string advice;
  if (is_foreign(source) && is_path_below(target) && !is_in_a_home(target))
    advice = "; the source comes first, and then the target: --stage-out=" + target + ":" + source;
  else if (tidy_path(after_job_directory(source).value_or(source)).empty() &&
           !source.starts_with('/'))
    advice = "; for all that the job has made, write '*': --stage-out='*:" + target + "'";
  const std::string rest = tidy_path(source);
  const bool may_be_a_variable = advice.empty() || rest.find('/') == std::string::npos;
  if (source.starts_with('/') && is_path_below(rest) && may_be_a_variable)
    advice += "; if it was $SLURM_TMPDIR/" + rest +
              ", that variable is empty in your shell: write " + rest;
  return not_below("the source", source, advice);
}

// Returns the directory in which a pattern begins. What that matches may be shorter.
std::string literal_part(const std::string& path) {
  if (!is_glob(path)) return path;
  return path.substr(0, path.rfind('/', path.find_first_of("*?[{\\")) + 1);
}

// Longer ones exist, but no call of the system takes them.
Status check_length(const std::string& whole, const OptionPart& part, TextRange& at) {
  constexpr std::size_t k_most_path = 4095;  // PATH_MAX, with its NUL
  constexpr std::size_t k_most_name = 255;   // NAME_MAX
  const std::string path = literal_part(whole);
  const TextRange before = std::exchange(at, part.place);
  if (path.size() > k_most_path)
    return Error{ENAMETOOLONG, "a path of " + human_count(path.size()) +
                                   " bytes is too long: the system takes at most " +
                                   human_count(k_most_path)};
  for (const std::string_view name : parts_of(path, '/')) {
    if (name.size() > k_most_name)
      return Error{ENAMETOOLONG, "a name of " + human_count(name.size()) +
                                     " bytes in a path is too long: a file system takes at most " +
                                     human_count(k_most_name)};
  }
  at = before;
  return {};
}

// Reads an item's source, and its destination if there is one.
template <typename Item>
Status read_paths(Item& item, const OptionCut& cut, std::string_view text,
                  const SubmitContext& place, TextRange& at) {
  TRY(check_variables(cut.paths[0], text, at));
  if (cut.paths[0].text.empty()) return wrong_form("no source is named", Option<Item>::example);
  if constexpr (std::is_same_v<Item, DatasetItem>) TRY(check_braces(cut.paths[0], at));
  TRY_ASSIGN(item.source, absolute_path(cut.paths[0].text, place));
  TRY(check_length(item.source, cut.paths[0], at));
  if (cut.paths.size() < 2) return {};
  TRY_ASSIGN(item.destination, read_destination(cut, text, at));
  return check_length(item.destination, cut.paths[1], at);
}

Result<DatasetItem> read_dataset(std::string_view text, const SubmitContext& place, TextRange& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, Option<DatasetItem>::example));
  DatasetItem item;
  TRY(read_paths(item, cut, text, place, at));
  for (const OptionPart& key : cut.keys) {
    at = key.place;
    TRY(set_key(item, key.text, place));
  }
  if (auto conflict = key_conflict(item)) {
    for (const OptionPart& key : cut.keys)
      if (key_name(key.text) == conflict->key) at = key.place;
    return std::move(conflict->error);
  }
  if (item.destination.empty() && !is_path_below(destination_of(item))) {
    at = cut.paths[0].place;
    return wrong_form("no name for the destination can be made from the source; give one after ':'",
                      Option<DatasetItem>::example);
  }
  return item;
}

Result<OutputItem> read_output(std::string_view text, const SubmitContext& place, TextRange& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, Option<OutputItem>::example));
  at = cut.paths[0].place;
  if (cut.paths.size() != 2 || cut.paths[0].text.empty() || cut.paths[1].text.empty()) {
    if (!cut.paths[0].text.empty()) at.begin = at.end;  // the target after it is missing
    const bool has_comma = cut.paths.size() == 1 &&
                           std::any_of(cut.keys.begin(), cut.keys.end(), [](const OptionPart& key) {
                             return key.text.find(':') != std::string::npos;
                           });
    return wrong_form(
        std::string("a source and a target are needed") +
            (has_comma ? " before the first comma; write \\, for a comma inside a path" : ""),
        Option<OutputItem>::example);
  }
  OutputItem item;
  const auto below = after_job_directory(cut.paths[0].text);
  const bool is_marked_below = below.has_value();
  const std::string source = below.value_or(cut.paths[0].text);
  if (!is_marked_below) TRY(check_variables(cut.paths[0], text, at));
  TRY(check_braces(cut.paths[0], at));
  if (!are_below(source) || (!is_marked_below && is_in_a_home(source)))
    return no_output_source(cut.paths[0].text, cut.paths[1].text);
  item.source = tidy_path(source);
  TRY(check_length(item.source, cut.paths[0], at));
  TRY(check_variables(cut.paths[1], text, at));
  TRY_ASSIGN(item.target, absolute_path(cut.paths[1].text, place));
  TRY(check_length(item.target, cut.paths[1], at));
  if (Status pattern = check_pattern(item.target); !pattern) {
    return wrong_form("the target '" + item.target + "' has " + pattern.error().what,
                      Option<OutputItem>::example);
  }
  // A file that is an archive already is copied, whatever it is.
  const Status written = check_written_archive(archive_suffix(item.target));
  if (!written && archive_suffix(item.source).empty())
    return wrong_form(written.error().what, Option<OutputItem>::example);
  TextRange early_key;
  for (const OptionPart& key : cut.keys) {
    at = key.place;
    TRY(set_key(item, key.text, place));
    if (key_name(key.text) == "every" || key_name(key.text) == "prune") early_key = at;
  }
  const bool is_early = item.every_s != 0 || item.prune;
  if (const Status early = check_early(item); is_early && !early) {
    at = early_key;
    const std::string name = item.every_s != 0 ? "every=" : "prune";
    return Error{EINVAL,
                 name + (item.every_s != 0 ? " delivers" : " compares deliveries") +
                     " while the job runs, and this output can only be delivered at its end: " +
                     early.error().what + "; remove " + name +
                     ", or name what you want earlier in a second --stage-out"};
  }
  return item;
}

Result<VenvItem> read_venv(std::string_view text, const SubmitContext& place, TextRange& at) {
  TRY_ASSIGN(const OptionCut cut, cut_option(text, at, Option<VenvItem>::example));
  VenvItem item;
  TRY(read_paths(item, cut, text, place, at));
  if (!is_venv_path(item.destination)) {
    return wrong_form(
        "the destination of an environment cannot hold quotes, '$', '`', ':', '\\' or "
        "control characters: it becomes a part of PATH and of shell scripts",
        Option<VenvItem>::example);
  }
  for (const OptionPart& key : cut.keys) {
    TRY(check_variables(key, text, at));
    TRY(set_key(item, key.text, place));
    TRY(check_length(item.wheels, key, at));
  }
  return item;
}

Result<StageWait> read_wait(std::string_view text) {
  if (const auto value = value_of(k_wait_words, text)) return static_cast<StageWait>(*value);
  return Error{EINVAL, "'" + std::string(text) + "'" + did_you_mean(text, texts_of(k_wait_words)) +
                           ": only all, node or none, for example --stage-wait=node"};
}

}  // namespace

Result<DatasetItem> parse_dataset_option(std::string_view text, const SubmitContext& place) {
  return read_marked(Option<DatasetItem>::name, text,
                     [&](TextRange& at) { return read_dataset(text, place, at); });
}

Result<OutputItem> parse_output_option(std::string_view text, const SubmitContext& place) {
  return read_marked(Option<OutputItem>::name, text,
                     [&](TextRange& at) { return read_output(text, place, at); });
}

Result<VenvItem> parse_venv_option(std::string_view text, const SubmitContext& place) {
  return read_marked(Option<VenvItem>::name, text,
                     [&](TextRange& at) { return read_venv(text, place, at); });
}

Result<StageWait> parse_wait_option(std::string_view text) {
  return read_marked("stage-wait", text, [&](TextRange&) { return read_wait(text); });
}

}  // namespace nodestage
