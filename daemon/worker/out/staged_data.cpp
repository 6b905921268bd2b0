#include "daemon/worker/out/staged_data.hpp"

#include <fcntl.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "common/os/file.hpp"
#include "common/os/wall_clock.hpp"
#include "common/request/destinations.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr const char* k_compiled = "__pycache__";
constexpr const char* k_memory_names =
    "nodestage-memory";  // in what links to items in memory lead to
constexpr std::size_t k_most_listed = 3;
constexpr std::size_t k_shown_width = 60;
constexpr std::size_t k_most_sources = 64;

// A time that is still to come means nothing: the clock was set back.
std::uint64_t past(std::uint64_t time) { return time > wall_ns() ? 0 : time; }

std::string normal(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal();
  while (text.ends_with('/')) text.pop_back();
  return text;
}

// Puts a star for braces, or thousands of names would be compared with each entry.
std::string without_braces(const std::string& glob) {
  std::string text;
  for (std::size_t i = 0; i < glob.size(); ++i) {
    const std::size_t end = end_of_braces(glob, i);
    text += end == std::string::npos ? glob[i] : '*';
    if (end != std::string::npos) i = end;
  }
  return text;
}

std::vector<std::string> sources_of(const std::string& glob) {
  auto texts = brace_texts(glob);
  if (texts && texts->size() <= k_most_sources) return std::move(*texts);
  return {without_braces(glob)};
}

// The item with the names that its patterns have here, by its text alone: whether a part of it
// existed as it was written is known no more.
DatasetItem with_values(DatasetItem item, const DeliveryOrder& order) {
  const PatternFacts facts = pattern_facts(order);
  std::string source;
  for (std::string_view rest = item.source;;) {
    const std::string part(rest.substr(0, rest.find('/')));
    const auto expanded = expand_pattern(part, facts);
    source += expanded ? *expanded : part;
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
    source += '/';
  }
  item.source = std::move(source);
  return item;
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

bool is_compiled(const std::string& path) {
  return ("/" + path + "/").find(std::string("/") + k_compiled + "/") != std::string::npos;
}

std::uint64_t ctime_of(const struct stat& info) {
  return static_cast<std::uint64_t>(info.st_ctim.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(info.st_ctim.tv_nsec);
}

}  // namespace

StagedData::StagedData(const StageRequest& request, const DeliveryOrder& order, int job_fd,
                       std::uint64_t if_unknown)
    : job_fd_(job_fd), directory_(order.directory), placed_(read_placed_names(job_fd)) {
  const auto until = [&order, if_unknown](std::size_t item) {
    if (item < order.staged_ns.size() && order.staged_ns[item] != 0)
      return past(order.staged_ns[item]);
    return if_unknown;
  };
  for (std::size_t i = 0; i < request.datasets.size(); ++i) {
    const DatasetItem& item = request.datasets[i];
    const bool is_early = item.async || request.wait == StageWait::none;
    add(item, until(i), is_early);
    if (item.destination.empty()) add(with_values(item, order), until(i), is_early);
    if (item.mount) add_image(destination_of(with_values(item, order)));
  }
  if (request.venv) {
    const std::string venv = normal(request.venv->destination);
    const std::uint64_t time = until(request.datasets.size());
    places_.push_back({venv, false, time, request.venv->shared});
    places_.push_back({venv + ".log", false, time, false});
  }
  std::vector<Place> kept;
  for (Place& place : places_) {
    place.is_spread = place.is_spread && !place.is_glob && has_kept(place.name);
    if (!place.is_spread) continue;
    kept.push_back(place);
    kept.back().name = kept_place(place.name);
    kept.back().is_spread = false;
  }
  places_.insert(places_.end(), kept.begin(), kept.end());
  // What is known best goes first.
  std::stable_sort(places_.begin(), places_.end(), [](const Place& one, const Place& other) {
    return one.doubt() < other.doubt();
  });
}

// Besides the link at its destination: the image, and the link to it, which are never a result.
void StagedData::add_image(const std::string& destination) {
  constexpr auto k_always = std::numeric_limits<std::uint64_t>::max();
  places_.push_back({kept_place(normal(destination)), false, k_always, true});
  places_.push_back({image_link(images_++), false, k_always, true});
}

void StagedData::add(const DatasetItem& item, std::uint64_t until, bool is_early) {
  const bool is_link = (item.shared || item.mount) && !item.writable;
  if (!item.destination.empty()) {
    Place place{normal(item.destination), false, until, is_link, is_early};
    place.is_spread = item.writable;
    places_.push_back(std::move(place));
    return;
  }
  const std::string named = item.join ? whole_of_glob(item.source) : item.source;
  Place place{"", is_glob(named), until, is_link, is_early};
  place.is_spread = item.writable;
  // The job may have put names of its own there before all matches were in place.
  if (place.is_glob && is_early) place.ended = std::exchange(place.until, 0);
  for (const std::string& source : sources_of(named)) add_names(source, item, place);
  // Only the names of the parts say what "x*" is joined to, which is among the names placed.
  if (!item.join || place.is_glob || !is_glob(item.source) || !archive_suffix(named).empty())
    return;
  place.is_glob = true;
  if (is_early) place.ended = std::exchange(place.until, 0);
  add_names("*", item, place);
}

// An archive is extracted to its name without the suffix; any other source keeps its name.
void StagedData::add_names(const std::string& source, const DatasetItem& item, const Place& place) {
  const std::string whole = last_part(source);
  const std::string bare = whole.substr(0, whole.size() - archive_suffix(whole).size());
  for (const std::string& name : {whole, bare, default_name(source, item)}) {
    const bool is_new = std::none_of(places_.begin(), places_.end(),
                                     [&name](const Place& one) { return one.name == name; });
    if (!is_new || name.empty()) continue;
    places_.push_back(place);
    places_.back().name = name;
  }
}

const StagedData::Place* StagedData::place_of(const std::string& path) const {
  const auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& one) {
    if (!one.is_glob) return lies_in(path, one.name);
    const std::string name = first_part(path);
    return (!placed_ || placed_->count(name) > 0) &&
           ::fnmatch(one.name.c_str(), name.c_str(), 0) == 0;
  });
  return place == places_.end() ? nullptr : &*place;
}

bool StagedData::is_above(const std::string& path) const {
  return std::any_of(places_.begin(), places_.end(), [&path](const Place& place) {
    return !place.is_glob && place.name != path && !path.empty() && lies_in(place.name, path);
  });
}

bool StagedData::is_any_gone() const {
  return std::any_of(places_.begin(), places_.end(), [this](const Place& place) {
    return !place.is_glob && place.until != 0 && !has_entry(job_fd_, place.name);
  });
}

bool StagedData::meets(const std::string& path) const {
  const std::string whole = normal(path);
  return place_of(whole) != nullptr || is_above(whole);
}

bool StagedData::has_kept(const std::string& destination) const {
  struct stat info {};
  return ::fstatat(job_fd_, kept_place(destination).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

// A link of the kept tree itself has the same text here as there.
bool StagedData::is_as_spread(const std::string& path, const struct stat& info) const {
  const std::string kept = kept_place(path);
  struct stat there {};
  if (S_ISDIR(info.st_mode))
    return ::fstatat(job_fd_, kept.c_str(), &there, 0) == 0 && S_ISDIR(there.st_mode);
  if (!S_ISLNK(info.st_mode)) return false;
  const std::string text = link_text(job_fd_, path);
  return text == directory_ + "/" + kept || text == link_text(job_fd_, kept);
}

bool StagedData::is_kept(const std::string& path, const struct stat& info) const {
  const Place* place = place_of(path);
  return place != nullptr && place->is_spread && is_as_spread(path, info);
}

bool StagedData::is_old(const Place& place, const std::string& path,
                        const struct stat& info) const {
  if (place.is_spread) return is_as_spread(path, info) || is_compiled(path);
  if (place.is_link && S_ISLNK(info.st_mode) && path == place.name) return true;
  return S_ISDIR(info.st_mode) || is_compiled(path) || ctime_of(info) <= place.until;
}

bool StagedData::is_changed(const Place& place, const std::string& path, const struct stat& info,
                            IfUnknown unknown) const {
  if (is_old(place, path, info)) return false;
  // A glob that matches every name matches those of results, too.
  if (place.until != 0 || (place.is_any() && !placed_)) return true;
  return unknown == IfUnknown::changed || (place.ended != 0 && ctime_of(info) > place.ended);
}

bool StagedData::is_unchanged(const std::string& path, const struct stat& info) const {
  const Place* place = place_of(path);
  return place != nullptr && is_old(*place, path, info);
}

bool StagedData::is_as_staged(const std::string& path, const struct stat& info) const {
  const Place* place = place_of(path);
  return place != nullptr && S_ISREG(info.st_mode) && !place->is_early && place->until != 0 &&
         (placed_ || !place->is_any()) && ctime_of(info) <= place->until;
}

std::string StagedData::item_at(const std::string& path) const {
  const Place* place = place_of(path);
  if (place == nullptr) return "";
  return place->is_glob ? first_part(path) : place->name;
}

bool StagedData::is_all_unchanged(const JobTree& job, const std::string& path,
                                  IfUnknown unknown) const {
  const auto differs = [&](const std::string& entry, const struct stat& info) {
    const Place* place = place_of(entry);
    if (place == nullptr) return !S_ISDIR(info.st_mode);
    return is_changed(*place, entry, info, unknown);
  };
  struct stat info {};
  auto top = open_beneath(job.fd(), path, O_PATH | O_NOFOLLOW);
  if (!top || ::fstat(top->get(), &info) != 0 || differs(path, info)) return false;
  if (!S_ISDIR(info.st_mode)) return true;
  auto walk = TreeWalk::begin(std::move(*top), WalkFor::looking);
  while (walk) {
    const auto step = walk->next();
    if (!step) return false;
    if (!*step) return true;
    // What cannot be examined may be changed.
    if ((*step)->kind == WalkStep::Kind::fault) return false;
    if (differs(path + "/" + walk->path(**step), (*step)->info)) return false;
  }
  return false;
}

// Returns whether one of the globs is the path, or spells out something staged around it.
bool StagedData::is_named(const std::vector<std::string>& globs, const std::string& path) const {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    const std::size_t end = glob.find_first_of("*?[\\");
    if (end == std::string::npos) return normal(glob) == path;
    const std::size_t slash = glob.substr(0, end).rfind('/');
    if (slash == std::string::npos) return false;
    const std::string top = normal(glob.substr(0, slash));
    return place_of(top) != nullptr && lies_in(path, top);
  });
}

OutputSource StagedData::results_of(const JobTree& job, const std::string& source,
                                    OutputSource found) const {
  const auto is_spread = [this](const std::string& path) {
    const std::string whole = normal(path);
    return std::any_of(places_.begin(), places_.end(), [&whole](const Place& place) {
      return place.is_spread && (lies_in(whole, place.name) || lies_in(place.name, whole));
    });
  };
  if (found.kind != OutputSource::Kind::matches) {
    if (std::any_of(found.paths.begin(), found.paths.end(), is_spread)) found.changed = found.paths;
    return found;
  }
  const auto globs = brace_texts(source);
  std::vector<std::string> paths;
  for (std::string& path : found.paths) {
    if (!meets(path) || (globs && is_named(*globs, path) && !is_spread(path))) {
      paths.push_back(std::move(path));
      continue;
    }
    for (const Place& place : places_) {
      const std::string& name = place.is_glob ? path : place.name;
      if (lies_in(name, path) && link_text(job_fd_, name).find(k_memory_names) != std::string::npos)
        found.in_memory.insert(name);
    }
    if (found.in_memory.contains(path)) continue;
    if (is_all_unchanged(job, path, IfUnknown::changed)) {
      found.unchanged.push_back(std::move(path));
    } else {
      found.changed.push_back(path);
      paths.push_back(std::move(path));
    }
  }
  found.paths = std::move(paths);
  if (found.paths.empty()) found.kind = OutputSource::Kind::missing;
  return found;
}

Result<OutputSource> find_results(const JobTree& job, const std::string& source,
                                  const StagedData& staged) {
  TRY_ASSIGN(OutputSource found, find_output_source(job, source));
  return staged.results_of(job, source, std::move(found));
}

std::string left_out_note(const OutputSource& source) {
  std::string text;
  const auto add = [&text](const char* what, const std::vector<std::string>& names) {
    if (!names.empty())
      text += (text.empty() ? "" : "; ") + (what + listed(names, k_most_listed, k_shown_width));
  };
  add("left out as staged and unchanged: ", source.unchanged);
  add("in memory, and what the job wrote there is not delivered: ",
      {source.in_memory.begin(), source.in_memory.end()});
  add("only what was changed or added since the staging: ", source.changed);
  return text;
}

std::string nothing_note(const std::string& source, const OutputSource& found) {
  if (found.is_dangling) return source + ": a link to what does not exist, in the job's directory";
  if (!found.in_memory.empty())
    return source + ": matches only what was staged (" + left_out_note(found) +
           ") in the job's directory";
  if (found.unchanged.empty()) return source + ": nothing of that name in the job's directory";
  return source + ": matches only what was staged and is unchanged (" +
         listed(found.unchanged, k_most_listed, k_shown_width) + ") in the job's directory";
}

struct StagedLinks::Content {
  std::uint64_t staged_bytes = 0;  // that are as they were
  bool is_changed = false;         // something was changed or added, or cannot be examined
  bool has_kept = false;           // links to what is kept for other jobs, too

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

Linked StagedLinks::share(const ResolvedPath& place) {
  if (!staged_.meets(place.path)) return Linked::all;
  const auto known = shares_.find(place.path);
  if (known != shares_.end()) return known->second;
  const Content content = content_of(place);
  Linked share = content.is_changed ? Linked::changed : Linked::nothing;
  if (content.staged_bytes <= left_ && !content.has_kept) {
    left_ -= content.staged_bytes;
    share = Linked::all;
  }
  return shares_.emplace(place.path, share).first->second;
}

StagedLinks::Content StagedLinks::content_of(const ResolvedPath& place) const {
  Content content;
  content.add(place.info, staged_.is_unchanged(place.path, place.info));
  content.has_kept = staged_.is_kept(place.path, place.info);
  if (!S_ISDIR(place.info.st_mode)) return content;
  auto directory = place.open_directory();
  if (!directory) return {content.staged_bytes, true};
  auto walk = TreeWalk::begin(std::move(*directory), WalkFor::looking);
  while (walk && ((content.staged_bytes <= left_ && !content.has_kept) || !content.is_changed)) {
    const auto step = walk->next();
    if (step && !*step) return content;
    if (!step || (*step)->kind == WalkStep::Kind::fault) {
      content.is_changed = true;
      if (!step) return content;
    } else if ((*step)->kind == WalkStep::Kind::leaf) {
      const std::string path = place.path + "/" + walk->path(**step);
      content.add((*step)->info, staged_.is_unchanged(path, (*step)->info));
      content.has_kept = content.has_kept || staged_.is_kept(path, (*step)->info);
    }
  }
  content.is_changed = content.is_changed || !walk;
  return content;
}

}  // namespace nodestage
