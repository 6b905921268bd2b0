#include "daemon/worker/write/directory_cache.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "daemon/worker/tree/below.hpp"

namespace nodestage {
namespace {

constexpr mode_t k_mode = 0777;

}  // namespace

DirectoryCache::Place* DirectoryCache::find(std::string_view path) {
  auto* place = std::find_if(places_.begin(), places_.end(),
                             [path](const Place& known) { return known.fd && known.path == path; });
  return place == places_.end() ? nullptr : place;
}

Result<int> DirectoryCache::open(const std::string& path) {
  if (path.empty()) return root_;
  Place* place = find(path);
  if (place == nullptr) {
    auto fd = open_or_make(path);
    if (!fd && fd.error().code == EMFILE) {
      forget();
      fd = open_or_make(path);
    }
    if (!fd) return std::move(fd.error());
    place = std::min_element(places_.begin(), places_.end(),
                             [](const Place& a, const Place& b) { return a.used < b.used; });
    place->path = path;
    place->fd = std::move(*fd);
  }
  place->used = ++uses_;
  return place->fd.get();
}

// Most directories are new and in one that is open. Otherwise the path is opened from the root.
Result<Fd> DirectoryCache::open_or_make(const std::string& path) {
  const SplitPath split = split_path(path);
  if (const auto parent = open(std::string(split.parent))) {
    const std::string name(split.name);
    const bool is_new = ::mkdirat(*parent, name.c_str(), k_mode) == 0;
    if (is_new) ++made_;
    if (is_new || errno == EEXIST) {
      if (auto fd = open_directory_below(*parent, name)) return fd;
    }
  }
  return make_directories_below(root_, path, k_mode, &made_);
}

void DirectoryCache::forget() {
  for (Place& place : places_) place = {};
}

}  // namespace nodestage
