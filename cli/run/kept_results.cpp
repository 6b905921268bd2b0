#include "cli/run/kept_results.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/missing_outputs.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_named = 5;  // for more, the directory as a whole is named

// What cannot be looked at counts as a link to elsewhere.
bool is_elsewhere(const Result<LinkFate>& fate) {
  return !fate || fate->way == LinkFate::Way::instead || fate->way == LinkFate::Way::loop;
}

// Returns whether `path` is or has below it a link to elsewhere in the directory.
bool leads_elsewhere(const std::string& path, const JobTree& directory, OutputLinks& links) {
  const auto place = directory.find({path, LastLink::keep});
  if (!place || place->kind != JobPlace::Kind::there || place->path != path) return true;
  if (S_ISLNK(place->info.st_mode)) return true;
  if (!S_ISDIR(place->info.st_mode)) return false;
  auto top = place->open_directory();
  if (!top) return true;
  auto walk = TreeWalk::begin(std::move(*top), WalkFor::looking);
  if (!walk) return true;
  for (;;) {
    const auto step = walk->next();
    if (!step) return true;
    if (!*step) return false;
    if (!S_ISLNK((*step)->info.st_mode)) continue;
    const SourceEntry link{(*step)->dir_fd, (*step)->name, O_NOFOLLOW};
    if (is_elsewhere(links.look(link, path + "/" + walk->path(**step)))) return true;
  }
}

}  // namespace

std::vector<std::string> kept_results(const StageRequest& request, const DeliveryOrder& order,
                                      const JobTree& directory) {
  const StagedData staged(request, order, directory.fd());
  const JobResults job{directory, staged};
  std::vector<std::string> paths;
  for (const OutputItem& item : request.outputs) {
    if (is_excluded(item.when, order.outcome)) continue;
    const auto source = job.find(item);
    // A source that cannot be examined may exist.
    if (!source) paths.push_back(item.source);
    if (source) paths.insert(paths.end(), source->paths.begin(), source->paths.end());
  }
  const MissingOutputs missing = find_missing(request, order, job);
  if (keeps_left(missing, order, job))
    paths.insert(paths.end(), missing.left.begin(), missing.left.end());
  return paths;
}

bool wants_results(const StageRequest& request, const DeliveryOrder& order) {
  return std::any_of(request.outputs.begin(), request.outputs.end(), [&order](const auto& item) {
    return !item.optional && !is_excluded(item.when, order.outcome);
  });
}

bool need_the_rest(const std::vector<std::string>& paths, const JobTree& directory) {
  std::set<std::string> names;
  OutputLinks links(directory);
  for (const std::string& path : paths) links.add(path, path);
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return !names.insert(last_part(path)).second || leads_elsewhere(path, directory, links);
  });
}

std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory) {
  std::string text = "Fetch them with: cp -a";
  if (paths.empty() || paths.size() > k_most_named) {
    text += " " + shell_word(directory);
  } else {
    for (const std::string& path : paths) {
      std::string whole = directory;
      whole.append("/").append(path);
      text.append(" ").append(shell_word(whole));
    }
  }
  return text + " ELSEWHERE && rm -rf " + shell_word(directory);
}

}  // namespace nodestage
