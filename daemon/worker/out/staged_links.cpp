#include "daemon/worker/out/staged_links.hpp"

#include <algorithm>
#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/tree/below.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

struct StagedLinks::Content {
  std::uint64_t staged_bytes = 0;  // that are as they were
  bool is_changed = false;         // something was changed or added, or cannot be examined

  void add(const struct stat& info, bool is_unchanged) {
    if (!is_unchanged) is_changed = is_changed || !S_ISDIR(info.st_mode);
    if (!is_unchanged || !S_ISREG(info.st_mode)) return;
    // Each name of a file gets its share.
    staged_bytes +=
        static_cast<std::uint64_t>(info.st_size) / std::max<std::uint64_t>(info.st_nlink, 1);
  }
};

bool StagedLinks::is_all_unchanged(const std::string& path, const struct stat& info) {
  if (!S_ISDIR(info.st_mode)) return staged_.is_unchanged(path, info);
  const auto known = unchanged_.find(path);
  if (known != unchanged_.end()) return known->second;
  const auto around = unchanged_.find(std::string(split_path(path).parent));
  const bool is_unchanged = (around != unchanged_.end() && around->second) ||
                            staged_.is_all_unchanged(tree_, path, StagedData::IfUnknown::changed);
  return unchanged_.emplace(path, is_unchanged).first->second;
}

Linked StagedLinks::share(const JobPlace& place) {
  if (!staged_.meets(place.path)) return Linked::all;
  const auto known = shares_.find(place.path);
  if (known != shares_.end()) return known->second;
  const Content content = content_of(place);
  Linked share = content.is_changed ? Linked::changed : Linked::nothing;
  if (content.staged_bytes <= left_) {
    left_ -= content.staged_bytes;
    share = Linked::all;
  }
  return shares_.emplace(place.path, share).first->second;
}

StagedLinks::Content StagedLinks::content_of(const JobPlace& place) const {
  Content content;
  content.add(place.info, staged_.is_unchanged(place.path, place.info));
  if (!S_ISDIR(place.info.st_mode)) return content;
  auto directory = place.open_directory();
  if (!directory) return {content.staged_bytes, true};
  auto walk = TreeWalk::begin(std::move(*directory), WalkFor::looking);
  while (walk && (content.staged_bytes <= left_ || !content.is_changed)) {
    const auto step = walk->next();
    if (step && !*step) return content;
    if (!step || (*step)->kind == WalkStep::Kind::fault) {
      content.is_changed = true;
      if (!step) return content;
    } else if ((*step)->kind == WalkStep::Kind::leaf) {
      const std::string path = place.path + "/" + walk->path(**step);
      content.add((*step)->info, staged_.is_unchanged(path, (*step)->info));
    }
  }
  content.is_changed = content.is_changed || !walk;
  return content;
}

}  // namespace nodestage
