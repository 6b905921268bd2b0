// DirectoryListing: the names in a directory, some at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct ListedName {
  std::uint64_t inode;
  unsigned char type;  // DT_…, DT_UNKNOWN where the file system does not tell
  std::string name;
};

class DirectoryListing {
 public:
  // `fd`: a directory open for reading, borrowed.
  explicit DirectoryListing(int fd) : fd_(fd) {}

  // At least `count` more names, without "." and ".."; fewer at the end, then none.
  Result<std::vector<ListedName>> next(std::size_t count);

 private:
  Result<bool> fill(std::vector<ListedName>& names);

  const int fd_;
  std::vector<char> block_;
};

}  // namespace nodestage
