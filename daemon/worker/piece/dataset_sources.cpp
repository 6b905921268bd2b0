#include "daemon/worker/piece/dataset_sources.hpp"

#include <algorithm>
#include <utility>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/piece/piece_form.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {
namespace {

Error with_optional(Error error) {
  if (error.code == ENOENT && !error.advice.empty())
    error.advice += "; with the key optional, the job starts without it";
  return error;
}

Result<NewestChoice> choose(const DatasetItem& item, const FoundSources& found) {
  if (found.is_group) return newest_of_matches(item, found.paths);
  TRY_ASSIGN(const struct stat info, examine_source(item.source));
  if (!S_ISDIR(info.st_mode)) return newest_of_file(item.source);
  return newest_in_directory(item);
}

DatasetSources sources_with(const DatasetItem& item, bool is_group, NewestChoice choice) {
  DatasetSources sources{{item.source}, is_group, std::move(choice), {}};
  if (!is_group) return sources;
  sources.paths.clear();
  for (const NewestEntry& entry : sources.newest->entries) sources.paths.push_back(entry.name);
  std::sort(sources.paths.begin(), sources.paths.end());
  return sources;
}

bool is_entry_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

}  // namespace

Result<FoundSources> find_sources(const DatasetItem& item) {
  if (item.exclude.empty()) return find_sources(item.source);
  const EntryFilter filter(0, {}, item.exclude);
  return find_sources(item.source,
                      [&filter](const std::string& below) { return filter.excludes(below); });
}

Result<DatasetSources> dataset_sources(const DatasetItem& item) {
  auto found = find_sources(item);
  if (item.newest == 0) {
    if (!found) return found.error();
    DatasetSources sources{std::move(found->paths), found->is_group, {}, {}};
    sources.note = left_out_note(found->specials, k_specials);
    return sources;
  }
  auto choice = found ? choose(item, *found) : Result<NewestChoice>(found.error());
  if (!choice) return item.optional ? choice.error() : with_optional(std::move(choice.error()));
  return sources_with(item, found->is_group, std::move(*choice));
}

// "group" or "directory", the number, and the names, each with a NUL after it; then one more NUL.
std::string text_of_choice(const DatasetSources& sources) {
  std::string text = sources.is_group ? "group" : "directory";
  text.append(1, '\0').append(std::to_string(sources.newest->among)).append(1, '\0');
  for (const NewestEntry& entry : sources.newest->entries) text.append(entry.name).append(1, '\0');
  return text.append(1, '\0');
}

std::optional<DatasetSources> sources_of_choice(const DatasetItem& item, const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() < 4 || !parts.back().empty() || !text.ends_with('\0')) return {};
  NewestChoice choice;
  const bool is_group = parts[0] == "group";
  const auto among = parse_number<std::size_t>(parts[1]);
  if ((!is_group && parts[0] != "directory") || !among) return {};
  choice.among = *among;
  if (is_group) choice.start = start_of_matches(item.source);
  for (std::size_t i = 2; i + 1 < parts.size(); ++i) {
    if (!is_group && !is_entry_name(parts[i])) return {};
    choice.entries.push_back({std::move(parts[i]), {}});
  }
  return sources_with(item, is_group, std::move(choice));
}

}  // namespace nodestage
