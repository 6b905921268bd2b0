// Space: keeps the job directory's file system from filling up, and explains it when it is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// One per item; not for several threads. dir_fd (borrowed) is any directory on the file system.
class Space {
 public:
  Space(int dir_fd, std::uint64_t leave_free_bytes, std::string node)
      : dir_fd_(dir_fd), leave_free_(leave_free_bytes), node_(std::move(node)) {}

  // Before writing: a fault when `bytes` more do not fit with leave_free_bytes kept.
  [[nodiscard]] Status expect(std::uint64_t bytes) const;

  // Told of everything written; looks at the file system every 64 MiB and every 1000 files.
  Status wrote(std::uint64_t bytes) { return due(bytes, 0); }
  Status made_file() { return due(0, 1); }

  // The fault for `name` that could not be written, from errno's value.
  [[nodiscard]] Error explain(std::string_view name, int code) const;

 private:
  Status due(std::uint64_t bytes, unsigned files);
  const int dir_fd_;
  const std::uint64_t leave_free_;
  const std::string node_;
  std::uint64_t bytes_ = 0;
  unsigned files_ = 0;
};

}  // namespace nodestage
