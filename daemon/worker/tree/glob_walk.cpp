#include "daemon/worker/tree/glob_walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_max_directories = 1'000'000;  // that are searched for one source
constexpr std::size_t k_names_at_a_time = 8192;
constexpr std::string_view k_any_depth = "**";

// A component without wildcards, as the name that it means.
std::optional<std::string> name_of(const std::string& component) {
  std::string name;
  for (std::size_t i = 0; i < component.size(); ++i) {
    if (std::string_view("*?[").find(component[i]) != std::string_view::npos) return {};
    if (component[i] == '\\' && i + 1 < component.size()) ++i;
    name += component[i];
  }
  return name;
}

// Repeated "**" are one, and one at the end is "*": directories are staged with all below them.
std::vector<std::string> components_of(std::string_view glob) {
  std::vector<std::string> components;
  while (!glob.empty()) {
    const std::string_view component = take_part(glob, '/');
    const bool is_repeated =
        component == k_any_depth && !components.empty() && components.back() == k_any_depth;
    if (!component.empty() && !is_repeated) components.emplace_back(component);
  }
  if (!components.empty() && components.back() == k_any_depth) components.back() = "*";
  return components;
}

// Returns the start of a glob that has no wildcard: whole components with their slashes.
std::string_view start_of(std::string_view glob) {
  return glob.substr(0, glob.rfind('/', glob.find_first_of("*?[\\")) + 1);
}

bool is_no_match(int code) { return code == ENOENT || code == ENOTDIR || code == ELOOP; }

bool matches(const std::string& pattern, const std::string& name) {
  return !name.starts_with(".nodestage") &&
         ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

constexpr unsigned char k_unknown_type = DT_UNKNOWN;

// Whether a match is neither a file nor a directory. A link is what it leads to, if to anything.
bool is_special(const std::string& path, unsigned char type) {
  if (type == DT_REG || type == DT_DIR) return false;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

std::string entry_path(const std::string& directory, const std::string& name) {
  return directory.empty() || directory.ends_with('/') ? directory + name : directory + "/" + name;
}

}  // namespace

Status GlobWalk::add(const std::string& text) {
  const std::string_view start = start_of(text);
  Glob glob{start.size(), components_of(std::string_view(text).substr(start.size())),
            text.ends_with('/')};
  return expand(glob, 0, std::string(start));
}

std::vector<std::string> GlobWalk::take_matches() {
  std::sort(matches_.begin(), matches_.end());
  matches_.erase(std::unique(matches_.begin(), matches_.end()), matches_.end());
  const std::unordered_set<std::string> all(matches_.begin(), matches_.end());
  const auto lies_in_another = [&](const std::string& path) {
    for (std::size_t at = path.rfind('/'); at != std::string::npos && at > 0;
         at = path.rfind('/', at - 1)) {
      const std::string above = path.substr(0, at);
      if (all.contains(above) && is_directory(above, LastLink::keep)) return true;
    }
    return false;
  };
  std::vector<std::string> outermost;
  for (const std::string& path : matches_)
    if (!lies_in_another(path)) outermost.push_back(path);
  matches_.clear();
  return outermost;
}

// Adds the matches of glob.components from `at` on, below a directory.
Status GlobWalk::expand(const Glob& glob, std::size_t at, const std::string& directory) {
  std::string path = directory;
  for (; at < glob.components.size(); ++at) {
    const auto name = name_of(glob.components[at]);
    if (!name) break;
    path = entry_path(path, *name);
  }
  if (at == glob.components.size()) return add_end(glob, path, nullptr);
  if (glob.components[at] == k_any_depth) return expand_depths(glob, at + 1, path);
  TRY_ASSIGN(const auto names, list(path));
  return expand_names(glob, at, path, names);
}

Status GlobWalk::expand_names(const Glob& glob, std::size_t at, const std::string& directory,
                              const std::vector<ListedName>& names) {
  for (const ListedName& listed : names) {
    if (!matches(glob.components[at], listed.name)) continue;
    const std::string path = entry_path(directory, listed.name);
    if (at + 1 == glob.components.size()) {
      TRY(add_end(glob, path, &listed));
    } else if (!is_left_out(glob, path)) {
      TRY(expand(glob, at + 1, path));
    }
  }
  return {};
}

// Adds the matches below a directory and all directories in it.
Status GlobWalk::expand_depths(const Glob& glob, std::size_t at, const std::string& directory) {
  TRY_ASSIGN(const auto names, list(directory));
  TRY(name_of(glob.components[at]) ? expand(glob, at, directory)
                                   : expand_names(glob, at, directory, names));
  for (const ListedName& listed : names) {
    if (!enters(directory, listed)) continue;
    const std::string path = entry_path(directory, listed.name);
    if (!is_left_out(glob, path)) TRY(expand_depths(glob, at, path));
  }
  return {};
}

bool GlobWalk::is_left_out(const Glob& glob, const std::string& directory) const {
  return excludes_ && excludes_(directory.substr(glob.start_size));
}

bool GlobWalk::enters(const std::string& directory, const ListedName& listed) const {
  if (listed.name.starts_with('.')) return false;
  if (listed.type != DT_UNKNOWN) return listed.type == DT_DIR;
  return is_directory(entry_path(directory, listed.name), LastLink::keep);
}

// In a job directory, what is listed is looked at as well: if that fails, it is not missing.
Status GlobWalk::add_end(const Glob& glob, const std::string& path, const ListedName* listed) {
  if (listed == nullptr || job_ != nullptr) {
    TRY_ASSIGN(const bool is_there, has(path));
    if (!is_there) return {};
  }
  if (job_ == nullptr && is_special(path, listed == nullptr ? k_unknown_type : listed->type)) {
    ++specials_;
    return {};
  }
  if (!glob.means_directories) {
    matches_.push_back(path);
  } else if (is_directory(path, LastLink::follow)) {
    matches_.push_back(path + "/");
  }
  return {};
}

Result<std::vector<ListedName>> GlobWalk::list(const std::string& directory) {
  std::vector<ListedName> names;
  if (++searched_ > k_max_directories) return Error{E2BIG, directory};
  TRY_ASSIGN(const auto fd, open(directory));
  if (!fd) return names;
  for (bool is_more = true; is_more;) {
    auto some = list_directory(fd->get(), k_names_at_a_time);
    if (!some) return Error{some.error().code, directory};
    is_more = some->size() >= k_names_at_a_time;
    names.insert(names.end(), std::make_move_iterator(some->begin()),
                 std::make_move_iterator(some->end()));
  }
  return names;
}

// Returns nothing if there is no such directory.
Result<std::optional<Fd>> GlobWalk::open(const std::string& directory) const {
  using Opened = std::optional<Fd>;
  if (job_ == nullptr) {
    auto fd = open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (fd) return Opened(std::move(*fd));
    if (is_no_match(fd.error().code)) return Opened();
    return Error{fd.error().code, directory};
  }
  const auto place = job_->find({directory});
  if (!place && place.error().code == ELOOP) return Opened();
  if (!place) return Error{place.error().code, directory};
  if (place->kind != ResolvedPath::Kind::there || !S_ISDIR(place->info.st_mode)) return Opened();
  auto fd =
      open_beneath(place->parent.get(), place->entry().path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd) return Error{fd.error().code, directory};
  return Opened(std::move(*fd));
}

Result<bool> GlobWalk::has(const std::string& path) const {
  if (job_ == nullptr) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) return true;
    if (is_no_match(errno)) return false;
    return Error{errno, path};
  }
  const auto place = job_->find({path, LastLink::keep});
  if (!place && place.error().code == ELOOP) return false;
  if (!place) return Error{place.error().code, path};
  return place->kind == ResolvedPath::Kind::there;
}

bool GlobWalk::is_directory(const std::string& path, LastLink last) const {
  if (job_ != nullptr) {
    const auto place = job_->find({path, last});
    return place && place->kind == ResolvedPath::Kind::there && S_ISDIR(place->info.st_mode);
  }
  struct stat info {};
  const int flags = last == LastLink::keep ? AT_SYMLINK_NOFOLLOW : 0;
  return ::fstatat(AT_FDCWD, path.c_str(), &info, flags) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace nodestage
