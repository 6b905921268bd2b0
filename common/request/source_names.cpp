#include "common/request/source_names.hpp"

#include <glob.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/request/destinations.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr const char* k_write_percent = "write %% for a percent sign";

// What is behind a "**" is not searched.
bool has_literal_match(const std::string& name) {
  struct stat info {};
  if (::lstat(name.c_str(), &info) == 0) return true;
  if (!is_glob(name) || name.find('%') > start_of_any_depth(name)) return false;
  const std::string start = name.substr(0, start_of_any_depth(name));
  glob_t found{};
  const int result = ::glob(start.c_str(), GLOB_NOSORT, nullptr, &found);
  ::globfree(&found);
  return result == 0;
}

bool exists_as_written(const std::string& source) {
  struct stat info {};
  if (::lstat(source.c_str(), &info) == 0) return true;
  const auto names = brace_texts(source);
  return names && std::any_of(names->begin(), names->end(), has_literal_match);
}

bool has_percent_sign(const std::string& source) { return source.find('%') != std::string::npos; }

Error unknown_value(const std::string& source, const PatternFacts& facts, const Error& cause) {
  if (names_any(source, "a") && facts.array_job && !facts.array_task) return no_array(source);
  return Error{cause.code, source + ": " + cause.what, k_write_percent};
}

}  // namespace

bool has_patterns(const std::string& source) {
  return has_percent_sign(source) && check_pattern(source) && !exists_as_written(source);
}

bool have_percent_signs(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [](const DatasetItem& item) { return has_percent_sign(item.source); });
}

Status expand_sources(StageRequest& request, const PatternFacts& facts) {
  bool is_changed = false;
  for (DatasetItem& item : request.datasets) {
    if (!has_patterns(item.source)) continue;
    auto source = expand_pattern(item.source, facts);
    if (!source) return unknown_value(item.source, facts, source.error());
    is_changed = true;
    item.source = std::move(*source);
    if (item.destination.empty() && !is_path_below(destination_of(item)))
      return Error{EINVAL, item.source + ": its destination's name cannot be derived from this",
                   "Give it one: --stage-dataset=SOURCE:DEST"};
  }
  return is_changed ? check_shared(request) : Status();
}

bool needs_step_names(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [](const DatasetItem& item) { return names_any(item.source, "aAx"); });
}

std::string about_percent_sign(const std::string& source) {
  if (!has_percent_sign(source) || !check_pattern(source) || !exists_as_written(source)) return {};
  return source + " exists with this name, so its percent sign means itself, and no pattern of " +
         "Slurm's";
}

Status check_source_pattern(const std::string& source) {
  if (!has_percent_sign(source)) return {};
  const Status checked = check_pattern(source);
  if (checked || exists_as_written(source)) return {};
  return Error{EINVAL, source + ": " + checked.error().what};
}

Error no_array(const std::string& source) {
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

}  // namespace

Result<std::vector<std::uint32_t>> indices_of_array(std::string_view text) {
  std::vector<std::uint32_t> indices;
  std::string_view rest = text.substr(0, text.find('%'));  // after it, how many run at once
  if (rest.empty()) return wrong_array(text);
  for (;;) {
    const std::size_t comma = rest.find(',');
    if (!add_indices(rest.substr(0, comma), indices)) return wrong_array(text);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

Result<std::vector<std::string>> names_before_start(const std::string& source,
                                                    const std::string& array, WhichTasks which) {
  std::vector<std::uint32_t> indices = {0};
  if (names_any(source, "a")) {
    if (array.empty()) return no_array(source);
    TRY_ASSIGN(indices, indices_of_array(array));
  }
  if (which == WhichTasks::first_and_last) indices = {indices.front(), indices.back()};
  if (names_any(source, "jArxN"))
    return Error{ENODATA, source + ": its name is known when the job starts"};
  PatternFacts facts;
  facts.node_index = 0;
  const passwd* user = ::getpwuid(::getuid());
  facts.user = user == nullptr ? "" : user->pw_name;
  std::vector<std::string> names;
  for (const std::uint32_t index : indices) {
    facts.array_task = index;
    TRY_ASSIGN(std::string name, expand_pattern(source, facts));
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace nodestage
