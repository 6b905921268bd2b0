// The names in a directory, some at a time.
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

// From where a directory, open for reading, was read last: at least `count` more names, without "."
// and ".."; fewer at its end.
Result<std::vector<ListedName>> list_directory(int fd, std::size_t count);

}  // namespace nodestage
