// Lists the names in a directory, a number of them at a time.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

// DirStack: the directories from a root down to the position of a walk. Only the deepest few are
// open, so depth costs memory but no descriptors. A directory above them is opened again as ".." of
// its child when the walk returns to it.

// Opens the directory `name` of dir_fd with O_PATH, never through a link. `resolve` may add
// RESOLVE_NO_XDEV (EXDEV then means a mount point). A fault's `what` is the cause alone.
Result<Fd> open_directory_at(int dir_fd, const std::string& name, unsigned long resolve = 0);

// Changes the mode of the file behind an O_PATH descriptor, without looking up a name.
Status change_mode(int path_fd, mode_t mode);

class DirStack {
 public:
  // Owns every descriptor; O_PATH is enough. Each must be a child of the one before.
  explicit DirStack(Fd root) { levels_.push_back({std::move(root), 0, 0}); }

  // Always open.
  [[nodiscard]] int top() const { return levels_.back().fd.get(); }
  [[nodiscard]] std::size_t depth() const { return levels_.size(); }

  Status push(Fd child);

  // Returns to the parent; the result is the previous top. ESTALE if ".." is not the same directory
  // any more, because it was moved.
  Result<Fd> pop();

 private:
  struct Level {
    Fd fd;
    dev_t device;  // valid once `fd` was closed
    ino_t inode;
  };
  Status reopen(std::size_t level);
  std::vector<Level> levels_;
};

struct ListedName {
  std::uint64_t inode;
  unsigned char type;  // DT_…; DT_UNKNOWN if the file system does not report it
  std::string name;
};

// Continues after the last call for a directory that is open for reading: returns at least `count`
// more names, without "." and ".."; fewer at the end.
Result<std::vector<ListedName>> list_directory(int fd, std::size_t count);

}  // namespace nodestage
