#include "common/request/source_names.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "common/request/destinations.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr const char* k_write_percent = "write %% for a percent sign";

// Not %x, whose value only a step of the job can report, and not always one on the first node.
constexpr std::string_view k_source_letters = "jAauNnr";

bool has_percent_sign(const std::string& source) { return source.find('%') != std::string::npos; }

// What cannot be examined may exist.
bool is_surely_missing(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return false;
  return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
}

// Returns `start`, or where the text goes on behind its components with a percent sign that exist
// as they are written; its size if none follows.
std::size_t behind_existing(const std::string& text, std::size_t start) {
  for (;;) {
    const std::size_t percent = text.find('%', start);
    if (percent == std::string::npos) return text.size();
    const std::size_t end = text.find('/', percent);
    if (is_surely_missing(text.substr(0, end))) return start;
    if (end == std::string::npos) return text.size();
    start = end + 1;
  }
}

// Returns the end of the first component with a percent sign; a '/' in braces does not end one.
std::size_t end_of_percent_part(const std::string& source, std::size_t start) {
  const std::size_t percent = source.find('%', start);
  for (std::size_t i = start; i < source.size(); ++i) {
    const std::size_t braces = end_of_braces(source, i);
    if (braces != std::string::npos) {
      i = braces;
    } else if (source[i] == '/' && i > percent) {
      return i;
    }
  }
  return source.size();
}

// Returns where patterns can begin. If one of the names that braces stand for exists, nowhere.
std::size_t start_of_patterns(const std::string& source) {
  const std::size_t start = behind_existing(source, 0);
  if (start == source.size() || !has_braces(source)) return start;
  const std::string before = source.substr(0, start);
  const auto names = brace_texts(source.substr(start, end_of_percent_part(source, start) - start));
  const auto is_there = [&](const std::string& name) {
    return has_percent_sign(name) && behind_existing(before + name, start) > start;
  };
  return names && std::any_of(names->begin(), names->end(), is_there) ? source.size() : start;
}

// Returns where the text of patterns begins, if the source has any.
std::optional<std::size_t> patterns_in(const std::string& source) {
  if (!has_percent_sign(source)) return {};
  const std::size_t start = start_of_patterns(source);
  const std::string text = source.substr(start);
  if (!has_percent_sign(text) || !check_pattern(text, k_source_letters)) return {};
  return start;
}

// Returns whether it had a pattern.
Result<bool> expand_source(std::string& source, bool& is_of_node, const PatternFacts& facts) {
  const auto start = patterns_in(source);
  if (!start) return false;
  const std::string text = source.substr(*start);
  const auto expanded = expand_pattern(text, facts);
  if (!expanded) {
    if (names_any(text, "a") && facts.array_job && !facts.array_task) return no_array(source);
    return Error{expanded.error().code, source + ": " + expanded.error().what, k_write_percent};
  }
  source.replace(*start, std::string::npos, *expanded);
  is_of_node = is_of_node || names_node(text);
  return true;
}

Result<bool> expand_sources_of(DatasetItem& item, const PatternFacts& facts) {
  DatasetItem named = item;
  TRY_ASSIGN(bool is_changed, expand_source(named.source, named.names_node, facts));
  for (std::string& source : named.also) {
    TRY_ASSIGN(const bool is_named, expand_source(source, named.names_node, facts));
    is_changed = is_changed || is_named;
  }
  if (is_changed && item.destination.empty() && !is_path_below(destination_of(named)))
    return Error{EINVAL, named.source + ": its destination's name cannot be derived from this",
                 "Give it one: --stage-dataset=SOURCE:DEST"};
  item = std::move(named);
  return is_changed;
}

// By its text alone: which of its directories exist as they are written is not known.
bool may_name(std::string_view source, std::string_view letters) {
  const auto parts = parts_of(source, '/');
  return std::any_of(parts.begin(), parts.end(),
                     [letters](std::string_view part) { return names_any(part, letters); });
}

}  // namespace

bool has_patterns(const std::string& source) { return patterns_in(source).has_value(); }

bool has_index(const std::string& source) {
  const auto start = patterns_in(source);
  return start && names_any(source.substr(*start), "aA");
}

std::string source_with_index(const DatasetItem& item) {
  const auto sources = all_sources(item);
  const auto found = std::find_if(sources.begin(), sources.end(), has_index);
  return found == sources.end() ? "" : *found;
}

Status expand_sources(StageRequest& request, const PatternFacts& facts) {
  bool is_changed = false;
  for (DatasetItem& item : request.datasets) {
    const auto expanded = expand_sources_of(item, facts);
    if (!expanded && !item.optional) return expanded.error();
    is_changed = is_changed || (expanded && *expanded);
  }
  return is_changed ? check_together(request) : Status();
}

bool needs_step_names(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(), [](const DatasetItem& item) {
    const auto sources = all_sources(item);
    return std::any_of(sources.begin(), sources.end(),
                       [](const std::string& source) { return may_name(source, "aA"); });
  });
}

std::string about_percent_sign(const std::string& source) {
  if (!has_percent_sign(source)) return {};
  const std::string known = source.substr(0, start_of_patterns(source));
  if (!has_percent_sign(known) || !check_pattern(known, k_source_letters)) return {};
  return known.substr(0, known.find('/', known.rfind('%'))) +
         " exists, so the % in it is taken as it is, not as a pattern";
}

Status check_source_pattern(const std::string& source) {
  if (!has_percent_sign(source)) return {};
  const Status checked = check_pattern(source.substr(start_of_patterns(source)), k_source_letters);
  if (checked) return {};
  return Error{EINVAL, source + ": " + checked.error().what};
}

Error no_array(const std::string& source) {
  if (!may_name(source, "a"))
    return Error{ENODATA, source + ": %A is the job ID of an array, and this job is no array",
                 std::string("Write %j for the ID of a job, or ") + k_write_percent};
  return Error{ENODATA, source + ": %a is the index of an array's task, and this job is no array",
               std::string("Submit it as one (--array=0-9), or ") + k_write_percent};
}

namespace {

Error wrong_array(std::string_view text) {
  return Error{EINVAL, "--array=" + std::string(text) +
                           ": indices as sbatch takes them are needed, such as 0-99 or 1,3,7-9:2"};
}

// Adds "7", "0-15", or "0-15:5".
bool add_indices(std::string_view text, std::vector<std::uint32_t>& indices) {
  const std::string_view first = text.substr(0, text.find('-'));
  text.remove_prefix(first.size());
  const auto begin = parse_number<std::uint32_t>(first);
  if (!begin) return false;
  std::optional<std::uint32_t> end = begin;
  std::optional<std::uint32_t> step = 1;
  if (!text.empty()) {
    text.remove_prefix(1);
    const std::string_view last = text.substr(0, text.find(':'));
    if (last.size() < text.size()) step = parse_number<std::uint32_t>(text.substr(last.size() + 1));
    end = parse_number<std::uint32_t>(last);
  }
  if (!end || !step || *step == 0 || *end < *begin || *end >= k_max_tasks) return false;
  for (std::uint64_t i = *begin; i <= *end; i += *step) {
    if (indices.size() >= k_max_tasks) return false;
    indices.push_back(static_cast<std::uint32_t>(i));
  }
  return true;
}

std::string_view without_brackets(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return text;
  return text.substr(1, text.size() - 2);
}

}  // namespace

Result<std::vector<std::uint32_t>> indices_of_array(std::string_view text) {
  std::vector<std::uint32_t> indices;
  std::string_view rest = without_brackets(text);
  const std::size_t percent = rest.find('%');  // after it, how many run at once
  if (percent != std::string_view::npos && !parse_number<std::uint32_t>(rest.substr(percent + 1)))
    return wrong_array(text);
  rest = without_brackets(rest.substr(0, percent));
  if (rest.empty()) return wrong_array(text);
  for (const std::string_view part : parts_of(rest, ','))
    if (!add_indices(part, indices)) return wrong_array(text);
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

Result<std::vector<std::string>> names_before_start(const std::string& source,
                                                    const std::string& array, WhichTasks which) {
  std::vector<std::uint32_t> indices = {0};
  const std::size_t start = start_of_patterns(source);
  const std::string text = source.substr(start);
  if (array.empty() && names_any(text, "aA")) return no_array(source);
  if (names_any(text, "a")) {
    TRY_ASSIGN(indices, indices_of_array(array));
  }
  if (which == WhichTasks::first_and_last) indices = {indices.front(), indices.back()};
  if (names_any(text, "jArN"))
    return Error{ENODATA, source + ": its name is known when the job starts"};
  PatternFacts facts;
  facts.node_index = 0;
  const passwd* user = ::getpwuid(::getuid());
  facts.user = user == nullptr ? "" : user->pw_name;
  std::vector<std::string> names;
  for (const std::uint32_t index : indices) {
    facts.array_task = index;
    TRY_ASSIGN(const std::string expanded, expand_pattern(text, facts));
    std::string name = source.substr(0, start) + expanded;
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace nodestage
