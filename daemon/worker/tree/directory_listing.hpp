// Lists the names in a directory, a number of them at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct ListedName {
  std::uint64_t inode;
  unsigned char type;  // DT_…; DT_UNKNOWN if the file system does not report it
  std::string name;
};

// Continues after the last call for a directory that is open for reading: returns at least `count`
// more names, without "." and ".."; fewer at the end.
Result<std::vector<ListedName>> list_directory(int fd, std::size_t count);

}  // namespace nodestage
