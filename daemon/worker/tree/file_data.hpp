// Reads the data of one source file: opening it, finding the parts that contain data, and a copy
// that keeps the holes.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

struct DataRange {
  std::uint64_t begin;
  std::uint64_t end;
};

// Returns the first range of data at or after `offset`, within `size`; empty if only a hole is
// left. A file system without holes reports everything as data.
Result<std::optional<DataRange>> next_data(int fd, std::uint64_t offset, std::uint64_t size);

using OnBytes = std::function<Status(std::uint64_t)>;  // called for each block with its size

// Copies `size` bytes from the start of `from` to the empty file `to`; holes stay holes. A fault
// says whether reading or writing failed, is on_bytes' own, or was_changed() (settled_file.hpp).
Status copy_data(int from, int to, std::uint64_t size, const OnBytes& on_bytes);

// An entry to read: `path` below dir_fd (borrowed), opened with open_beneath. `follow`: 0, or
// O_NOFOLLOW to read a link itself.
struct SourceEntry {
  int dir_fd;
  std::string path;
  int follow;
};

// Opens a regular file for reading. If its owner, the caller, may not read it, it gets u+r while it
// is being opened.
Result<Fd> open_for_reading(const SourceEntry& source, const struct stat& info);

// The times that a copy of `source` gets, as utimensat() takes them: the access time stays.
std::array<timespec, 2> times_of(const struct stat& source);

// Returns the text of a symbolic link.
Result<std::string> read_link(const SourceEntry& source);

}  // namespace nodestage
