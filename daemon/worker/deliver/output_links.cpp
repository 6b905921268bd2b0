#include "daemon/worker/deliver/output_links.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/os/file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {
namespace {

using PlaceKind = ResolvedPath::Kind;

// `path`, which lies in `from`, as it lies in `to`.
std::string moved(const std::string& path, const std::string& from, const std::string& to) {
  const std::size_t rest = from.empty() ? 0 : std::min(from.size() + 1, path.size());
  return joined_path(to, path.substr(rest));
}

std::string relative_text(const std::string& link, const std::string& to) {
  const std::filesystem::path top = "/";
  const std::filesystem::path directory = top / std::string(split_path(link).parent);
  return (top / to).lexically_normal().lexically_relative(directory.lexically_normal()).string();
}

LinkFate with_text(std::string text, ResolvedPath place) {
  return {LinkFate::Action::other_text, std::move(text), std::move(place)};
}

// Returns whether the relative path never leaves the directory, whether something is there or not.
// Most links of most trees are so, and need no longer look.
bool stays_below(int directory_fd, const std::string& text) {
  const auto there = open_beneath(directory_fd, text, O_PATH);
  return there || there.error().code == ENOENT;
}

// Returns whether it is the daemon's or its workers'.
bool is_hidden(const std::string& path) { return path.starts_with(".nodestage"); }

// Returns whether the absolute path is in what goes with the job: images, the cache, data in
// memory.
bool is_in_area(const std::string& path) {
  constexpr std::string_view k_areas[] = {"/.nodestage-images/", "/.nodestage-cache/",
                                          "/.nodestage-memory/", "/nodestage-push-",
                                          "/nodestage-memory-"};  // the last ones: of a run
  return std::any_of(std::begin(k_areas), std::end(k_areas),
                     [&path](auto area) { return path.find(area) != std::string::npos; });
}

}  // namespace

Error too_many_links() {
  return {ELOOP, "is reached over more than " + std::to_string(k_most_links_to_directories) +
                     " links to directories"};
}

void PathMap::set(const std::string& path, const std::string& value) {
  values_.insert_or_assign(path, value);
  longest_ = std::max(longest_, path.size());
}

std::optional<PathMap::Found> PathMap::nearest(std::string path) const {
  for (;;) {
    const auto found = path.size() <= longest_ ? values_.find(path) : values_.end();
    if (found != values_.end()) return Found{found->first, found->second};
    if (path.empty()) return {};
    // Nothing is longer than the longest one.
    const std::size_t slash = path.rfind('/', std::min(path.size() - 1, longest_));
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

void OutputLinks::add(const std::string& source, const std::string& target) {
  const std::string whole = joined_path(base_, target);
  targets_.set(source, whole);
  sources_.set(whole, source);
  if (share_of_sources_ == Linked::changed) partial_.insert(source);
  std::string path = source;
  while (around_.insert(path).second && !path.empty()) path = std::string(split_path(path).parent);
}

// Returns where in the target it is delivered.
std::optional<std::string> OutputLinks::copy_of(const ResolvedPath& place) const {
  const auto found = targets_.nearest(place.path);
  if (!found || place.path.empty()) return {};
  const bool may_be_left_out = place.kind == PlaceKind::there && partial_.count(found->path) > 0;
  if (may_be_left_out && leaves_out_ && leaves_out_(place.path, place.info)) return {};
  return moved(place.path, found->path, found->value);
}

// Links that lead to each other lead nowhere, and so does a text that is no path.
Result<ResolvedPath> OutputLinks::find(const JobPath& path) const {
  auto place = tree_.find(path);
  if (!place && leads_nowhere(place.error().code)) return ResolvedPath{};
  return place;
}

Result<LinkFate> OutputLinks::look(const SourceEntry& link, const std::string& target) {
  TRY_ASSIGN(const std::string text, read_link(link));
  const std::string whole = joined_path(base_, target);
  TRY_ASSIGN(LinkFate fate,
             text.starts_with('/') ? absolute(text, whole) : relative(link, text, whole));
  if (fate.action == LinkFate::Action::instead) {
    targets_.set(fate.place->path, whole);
    if (fate.share == Linked::changed) partial_.insert(fate.place->path);
    sources_.set(whole, fate.place->path);
  }
  return fate;
}

Result<LinkFate> OutputLinks::absolute(const std::string& text, const std::string& target) const {
  const auto below = tree_.below(text);
  if (!below && is_in_area(text)) return LinkFate{LinkFate::Action::staged};
  if (!below) return LinkFate{};
  if (below->starts_with(k_kept_prefix)) return LinkFate{LinkFate::Action::staged};
  TRY_ASSIGN(ResolvedPath place, find({*below, LastLink::keep}));
  return of_place(std::move(place), target);
}

Result<LinkFate> OutputLinks::relative(const SourceEntry& link, const std::string& text,
                                       const std::string& target) const {
  const auto around = sources_.nearest(target);
  if (!around) return LinkFate{};
  const std::string& root = around->value;
  const std::string source = moved(target, around->path, root);
  const std::string directory(split_path(source).parent);
  // Of a tree of which something is left out, what the text leads over may be missing.
  const bool may_stay = lies_in(directory, root) && partial_.count(root) == 0;
  if (may_stay && stays_below(link.dir_fd, text)) return LinkFate{};
  TRY_ASSIGN(ResolvedPath place, find({text, LastLink::keep, directory, root}));
  const bool stays = place.is_kept && may_stay;
  const bool is_nowhere = place.kind != PlaceKind::there && place.links == 0;
  if (stays || is_nowhere) return LinkFate{LinkFate::Action::as_it_is, "", std::move(place)};
  return of_place(std::move(place), target);
}

// `place`: with the last link kept, in case that is delivered, too.
Result<LinkFate> OutputLinks::of_place(ResolvedPath place, const std::string& target) const {
  const bool is_link = place.kind == PlaceKind::there && S_ISLNK(place.info.st_mode);
  if (!is_link || copy_of(place)) return fate_of(std::move(place), target);
  TRY_ASSIGN(ResolvedPath behind, find({place.path}));
  return fate_of(std::move(behind), target);
}

LinkFate OutputLinks::fate_of(ResolvedPath place, const std::string& target) const {
  if (place.kind == PlaceKind::outside && is_in_area(place.path)) return {LinkFate::Action::staged};
  if (place.kind == PlaceKind::outside) return with_text(place.path, {});
  if (const auto copy = copy_of(place))
    return with_text(relative_text(target, *copy), std::move(place));
  const bool is_kept = S_ISDIR(place.info.st_mode) || S_ISREG(place.info.st_mode);
  if (place.kind == PlaceKind::missing || is_hidden(place.path) || !is_kept) return {};
  if (S_ISDIR(place.info.st_mode) && is_around(place.path, target))
    return {LinkFate::Action::loop, "", std::move(place)};
  return delivered(std::move(place));
}

LinkFate OutputLinks::delivered(ResolvedPath place) const {
  const Linked share = share_ ? share_(place) : Linked::all;
  const auto action =
      share == Linked::nothing ? LinkFate::Action::staged : LinkFate::Action::instead;
  return {action, "", std::move(place), share};
}

// Whether a copy of the directory as `target` would contain something that --stage-out names, or
// what `target` is a part of: that lies in a place of a link, which may lie in another one.
bool OutputLinks::is_around(const std::string& path, const std::string& target) const {
  if (around_.count(path) > 0) return true;
  for (auto place = sources_.nearest(target); place && !place->path.empty();) {
    if (lies_in(place->value, path)) return true;
    place = sources_.nearest(std::string(split_path(place->path).parent));
  }
  return false;
}

LeftOut OutputLinks::left_out(const LinkFate& fate, const std::string& target) const {
  if (fate.share == Linked::all) return {};
  return {&leaves_out_, fate.place->path, target.size()};
}

std::optional<LinkFate> OutputLinks::directory_of(const LinkFate& fate) const {
  if (!fate.place || fate.place->kind != PlaceKind::there) return {};
  auto place = tree_.find({fate.place->path});
  if (!place || place->kind != PlaceKind::there || !S_ISDIR(place->info.st_mode)) return {};
  LinkFate whole = delivered(std::move(*place));
  if (whole.action != LinkFate::Action::instead) return {};
  return whole;
}

}  // namespace nodestage
