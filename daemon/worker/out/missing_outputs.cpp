#include "daemon/worker/out/missing_outputs.hpp"

#include <fcntl.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/output_source.hpp"
#include "daemon/worker/tree/directory_listing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_names_at_a_time = 4096;
constexpr std::size_t k_shown_names = 8;
constexpr std::size_t k_name_width = 60;

// Whether `name` is what a glob without a destination put at the top level.
bool matches(const DatasetItem& item, const std::string& name) {
  if (!item.destination.empty()) return false;
  const auto sources = brace_texts(item.source);
  return sources && std::any_of(sources->begin(), sources->end(), [&](const std::string& source) {
           const std::string pattern = last_part(source);
           const std::string bare =
               pattern.substr(0, pattern.size() - archive_suffix(pattern).size());
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
                  ::fnmatch(bare.c_str(), name.c_str(), 0) == 0;
         });
}

bool is_of_staging(const StageRequest& request, const std::string& name) {
  if (name.starts_with(".nodestage") || is_staged(request, name)) return true;
  if (request.venv && name == request.venv->destination + ".log") return true;
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [&](const DatasetItem& item) { return matches(item, name); });
}

std::vector<std::string> names_of_the_job(const StageRequest& request, int directory_fd) {
  std::vector<std::string> names;
  const auto top = open_at(directory_fd, ".", O_RDONLY | O_DIRECTORY);
  for (bool is_end = !top; !is_end;) {
    const auto some = list_directory(top->get(), k_names_at_a_time);
    is_end = !some || some->size() < k_names_at_a_time;
    for (const ListedName& listed : some ? *some : std::vector<ListedName>()) {
      if (!is_of_staging(request, listed.name)) names.push_back(listed.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_staged(const StageRequest& request, const std::string& path) {
  const auto meets = [&path](const std::string& destination) {
    const auto lies_in = [](const std::filesystem::path& inner,
                            const std::filesystem::path& outer) {
      return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first ==
             outer.end();
    };
    const auto one = std::filesystem::path(path).lexically_normal();
    const auto other = std::filesystem::path(destination).lexically_normal();
    return lies_in(one, other) || lies_in(other, one);
  };
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [&](const DatasetItem& item) { return meets(destination_of(item)); }) ||
         (request.venv && meets(request.venv->destination));
}

MissingOutputs find_missing(const StageRequest& request, JobOutcome outcome, const JobTree& job) {
  MissingOutputs found;
  bool is_any_there = false;
  for (const OutputItem& item : request.outputs) {
    found.is_missing.push_back(false);
    if (is_excluded(item.when, outcome)) continue;
    const auto source = find_output_source(job, item.source);
    const bool is_there = !source || source->kind != OutputSource::Kind::missing;
    is_any_there = is_any_there || is_there;
    found.is_missing.back() = !is_there && !item.optional;
  }
  const bool is_one_missing =
      std::find(found.is_missing.begin(), found.is_missing.end(), true) != found.is_missing.end();
  found.are_all = is_one_missing && !is_any_there;
  if (is_one_missing) found.left = names_of_the_job(request, job.fd());
  return found;
}

std::string missing_note(const std::string& source, const std::vector<std::string>& left) {
  std::string text = source + ": nothing of that name in the job's directory";
  for (std::size_t i = 0; i < std::min(left.size(), k_shown_names); ++i)
    text += (i == 0 ? ", which holds " : ", ") + shortened(printable(left[i]), k_name_width);
  if (left.size() > k_shown_names)
    text += " and " + human_count(left.size() - k_shown_names) + " more";
  return text;
}

}  // namespace nodestage
