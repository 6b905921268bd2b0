// Removes a directory tree, as the tree's owner or, for files of foreign owners, as root with only
// CAP_DAC_OVERRIDE, CAP_FOWNER, and CAP_DAC_READ_SEARCH.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Removes everything below dir_fd; the directory itself stays (mode u+rwx). Never follows a link,
// never crosses a mount point. Continues after a failure; the fault names the first entry that
// stays. What vanishes meanwhile is not a fault, so two runs at the same time do no harm.
// `must_stop` is asked before each entry; once it says yes, the fault is EINTR.
Status remove_tree_contents(int dir_fd, const std::function<bool()>& must_stop = {});

// Removes an entry of any kind, with all that is in it.
Status remove_entry(int dir_fd, const std::string& name);

// Runs the `remove` task: removes the tree at k_worker_directory_fd, at nice 19 and idle I/O
// priority. Exit code 0: the tree is empty; 1: something is left, and stderr names it.
int run_remove(const RemoveOrder& order);

// Takes the write bits from trees that their owner only reads.

inline constexpr mode_t k_write_bits = 0222;

// Returns a mode without write bits. The owner can list and enter a directory: otherwise it could
// not be compared with what it was (identify.hpp).
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
