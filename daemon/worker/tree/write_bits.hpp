// Takes the write bits from trees that their owner only reads.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "common/result.hpp"

namespace nodestage {

inline constexpr mode_t k_write_bits = 0222;

// Returns a mode without write bits. The owner can list and enter a directory: otherwise it could
// not be compared with what it was (compare_tree.hpp).
constexpr mode_t read_only_directory(mode_t mode) { return (mode & ~k_write_bits) | 0500; }

enum class WriteBits {
  kept,
  taken,
  taken_for_all,  // and everyone may read it: who may enter its top may read the whole source
};
// The mode of a copy; `mode` has the file's type.
constexpr mode_t mode_with(WriteBits bits, mode_t mode) {
  switch (bits) {
    case WriteBits::kept:
      return mode;
    case WriteBits::taken:
      return S_ISDIR(mode) ? read_only_directory(mode) : mode & ~k_write_bits;
    case WriteBits::taken_for_all:
      break;
  }
  return (mode & S_IFMT) | (S_ISDIR(mode) || (mode & 0111) != 0 ? 0555 : 0444);
}

// Takes the write bits from everything below the directory, which itself keeps them. Follows no
// link. dir_fd is borrowed; O_PATH is enough. A fault's `what` names the entry.
Status take_write_bits(int dir_fd);

}  // namespace nodestage
