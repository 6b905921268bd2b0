#include "daemon/worker/out/missing_outputs.hpp"

#include <fcntl.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/out/left_results.hpp"
#include "daemon/worker/tree/directory_listing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_names_at_a_time = 4096;
constexpr std::size_t k_shown_names = 8;
constexpr std::size_t k_shown_absent = 3;
constexpr std::size_t k_name_width = 60;
constexpr std::size_t k_most_asked = 8;

std::vector<std::string> names_of_the_job(const JobResults& job) {
  constexpr auto k_unknown = StagedData::IfUnknown::unchanged;
  std::vector<std::string> names;
  const auto top = open_at(job.tree.fd(), ".", O_RDONLY | O_DIRECTORY);
  for (bool is_end = !top; !is_end;) {
    const auto some = list_directory(top->get(), k_names_at_a_time);
    is_end = !some || some->size() < k_names_at_a_time;
    for (const ListedName& listed : some ? *some : std::vector<ListedName>()) {
      const bool is_hidden = listed.name.starts_with(".nodestage");
      const bool is_staged = job.staged.meets(listed.name) &&
                             job.staged.is_all_unchanged(job.tree, listed.name, k_unknown);
      if (!is_hidden && !is_staged) names.push_back(listed.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns what was probably meant by the first of `sources` for which that is known. Braces can
// stand for thousands of names: only the first few are compared.
std::string first_meant(const std::vector<std::string>& sources,
                        const std::vector<std::string>& candidates, const std::string& node) {
  for (std::size_t i = 0; i < std::min(sources.size(), k_most_asked); ++i) {
    if (std::string meant = probably_meant(sources[i], candidates, node); !meant.empty())
      return meant;
  }
  return {};
}

std::string did_you_mean_path(const std::string& meant) {
  if (meant.empty()) return meant;
  return " (did you mean '" + shortened(printable(meant), k_name_width) + "'?)";
}

}  // namespace

bool MissingOutputs::is_any() const {
  return std::find(is_missing.begin(), is_missing.end(), true) != is_missing.end() ||
         std::any_of(absent.begin(), absent.end(), [](const auto& some) { return !some.empty(); });
}

MissingOutputs find_missing(const StageRequest& request, const DeliveryOrder& order,
                            const JobResults& job) {
  MissingOutputs found;
  bool is_any_there = false;
  for (const OutputItem& item : request.outputs) {
    found.is_missing.push_back(false);
    found.absent.emplace_back();
    found.notes.emplace_back();
    if (is_excluded(item.when, order.outcome)) continue;
    const auto source = job.find(item);
    const bool is_there = !source || source->kind != OutputSource::Kind::missing;
    is_any_there = is_any_there || is_there;
    found.is_missing.back() = !is_there && !item.optional;
    if (!is_there) found.notes.back() = nothing_note(item.source, *source);
    if (source && is_there && !item.optional) found.absent.back() = source->absent;
  }
  if (!found.is_any()) return found;
  found.are_all = !is_any_there;
  found.names = names_of_the_job(job);
  found.left = left_results(request, job.staged, job.tree);
  const std::vector<std::string> compared = candidates(found.left, job.tree);
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    std::vector<std::string> wanted = found.absent[i];
    if (found.is_missing[i]) wanted = {request.outputs[i].source};
    found.meant.push_back(first_meant(wanted, compared, order.node));
  }
  return found;
}

bool keeps_left(const MissingOutputs& missing, const DeliveryOrder& order, const JobResults& job) {
  if (missing.left.empty()) return false;
  const bool is_one_near = std::any_of(missing.meant.begin(), missing.meant.end(),
                                       [](const std::string& path) { return !path.empty(); });
  if (order.node_count == 1 || is_one_near) return true;
  return order.node_index == 0 && missing.are_all && order.outcome != JobOutcome::failure &&
         !are_logs(missing.left, job.tree);
}

std::string missing_note(const std::string& note, const std::vector<std::string>& names,
                         const std::string& meant) {
  std::string text = note;
  for (std::size_t i = 0; i < std::min(names.size(), k_shown_names); ++i)
    text += (i == 0 ? ", which holds " : ", ") + shortened(printable(names[i]), k_name_width);
  if (names.size() > k_shown_names)
    text += " and " + human_count(names.size() - k_shown_names) + " more";
  return text + did_you_mean_path(meant);
}

std::string absent_note(const std::vector<std::string>& absent, const std::string& meant) {
  std::string text = "nothing in the job's directory is named or matches ";
  for (std::size_t i = 0; i < std::min(absent.size(), k_shown_absent); ++i)
    text += (i == 0 ? "'" : ", '") + shortened(printable(absent[i]), k_name_width) + "'";
  if (absent.size() > k_shown_absent)
    text += " and " + human_count(absent.size() - k_shown_absent) + " more";
  return text + did_you_mean_path(meant);
}

}  // namespace nodestage
