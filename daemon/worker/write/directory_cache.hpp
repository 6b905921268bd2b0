// DirectoryCache: the directories below a root that a thread writes to, and those on the way to
// them, kept open.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// A directory was reached without a link on the way when it was opened; whatever becomes of its
// name later, the descriptor stays in the tree. One thread.
class DirectoryCache {
 public:
  explicit DirectoryCache(int root_fd) : root_(root_fd) {}  // borrowed

  // O_PATH, valid until the next call. What is missing is made (0777 & ~umask). Where this process
  // may open no more files, those that were kept are closed. Faults as in below.hpp.
  Result<int> open(const std::string& path);

  // How many were made since the last call.
  std::size_t take_made() { return std::exchange(made_, 0); }

  // A directory may have gone, and its name may be another's.
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
