// DirectoryCache: keeps open the directories that a thread writes to below a root, and their
// parents.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Opens directories without following a link: a descriptor stays in the tree even if its name goes
// elsewhere. For one thread.
class DirectoryCache {
 public:
  explicit DirectoryCache(int root_fd) : root_(root_fd) {}  // borrowed

  // Opens with O_PATH, until the next call. Missing directories are created (0777 & ~umask). If
  // this process may open no more files, the cached directories are closed. Faults as in below.hpp.
  Result<int> open(const std::string& path);

  // Returns the number of directories created since the last call.
  std::size_t take_made() { return std::exchange(made_, 0); }

  // Call it when a directory may have been removed or its name reused.
  void forget();

 private:
  struct Place {
    std::string path;
    Fd fd;
    std::uint64_t used = 0;
  };
  [[nodiscard]] Place* find(std::string_view path);
  Result<Fd> open_or_make(const std::string& path);

  const int root_;
  std::array<Place, 64> places_;
  std::uint64_t uses_ = 0;
  std::size_t made_ = 0;
};

}  // namespace nodestage
