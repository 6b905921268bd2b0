// TreeTotal: counts the bytes of a tree while it is packed, in a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "common/os/fd.hpp"

namespace nodestage {

class TreeTotal {
 public:
  // Borrows the directory until it returns. A tree that cannot be walked has no total, nor has one
  // for which there is no memory or no thread.
  explicit TreeTotal(int directory);
  TreeTotal(const TreeTotal&) = delete;
  TreeTotal& operator=(const TreeTotal&) = delete;
  ~TreeTotal();

  // Returns the bytes of all regular files, each once however many names it has; 0: not known yet.
  // Holes count, which packing does not read.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void count(Fd directory);

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::thread counting_;
};

}  // namespace nodestage
