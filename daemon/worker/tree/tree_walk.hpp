// TreeWalk: everything below a directory, one step at a time, directories before and after their
// contents. By descriptors only: it builds no path, follows no link, and works at any depth.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

// Lists the names in a directory, a number of them at a time.

// DirStack: the directories from a root down to the position of a walk. Only the deepest few are
// open, so depth costs memory but no descriptors. A directory above them is opened again as ".." of
// its child when the walk returns to it.

// Opens the directory `name` of dir_fd with O_PATH, never through a link. `resolve` may add
// RESOLVE_NO_XDEV (EXDEV then means a mount point). A fault's `what` is the cause alone.
Result<Fd> open_directory_at(int dir_fd, const std::string& name, unsigned long resolve = 0);

// Opens the same directory or file once more, with the same offset.
Result<Fd> duplicate(int fd);

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

enum class WalkFor {
  reading,   // sorted; a directory that its owner may not read is readable while the walk is in
             // it, then gets its mode back
  looking,   // sorted; changes nothing, so such a directory is a fault
  removing,  // unsorted; every directory is made u+rwx; mount points are faults (EXDEV). Of a large
             // directory, some names at a time, so that its size does not matter: what the caller
             // has not removed may come again
};

struct WalkStep {
  enum class Kind {
    leaf,           // anything but a directory
    directory,      // the walk is now in it; skip() leaves it at once
    directory_end,  // the walk has left it
    fault,          // the entry could not be examined or entered: `fault`
  };
  Kind kind;
  int dir_fd;        // the directory that contains the entry (O_PATH), valid until the next step
  std::string name;  // of the entry in it
  struct stat info;  // as before the walk changed the mode; zeros if it could not be examined
  Error fault;
};

class TreeWalk {
 public:
  static constexpr std::size_t k_name_bytes = std::size_t{8} << 20;

  // Walks below the directory `root`, O_PATH is enough. There is no step for the root itself. A
  // walk for removing holds names of about so many bytes at a time, and a few for each directory
  // that it is in.
  static Result<TreeWalk> begin(Fd root, WalkFor purpose, std::size_t name_bytes = k_name_bytes);
  TreeWalk(TreeWalk&&) = default;
  ~TreeWalk();  // restores the modes if the walk did not end

  // Returns nothing at the end. A fault ends the walk, which cannot return to the parent then.
  Result<std::optional<WalkStep>> next();

  // Leaves a directory right after its step, with nothing of it seen and no directory_end.
  Status skip();

  // Returns how many directories below the root the last step's leaf is.
  [[nodiscard]] std::size_t depth() const { return levels_.size() - 1; }

  // Returns whether the walk is in that directory, or in one below it.
  [[nodiscard]] bool is_in(const struct stat& directory) const;

  // Returns the path of the last step below the root, for messages and archive names.
  [[nodiscard]] std::string path(const WalkStep& step) const;

 private:
  struct Level {
    std::string name;
    struct stat info;                 // before any chmod
    std::optional<mode_t> mode_back;  // to restore on the way out
    std::string names;                // NUL-terminated each; a million take about 20 MB
    std::vector<std::size_t> starts;  // of the names not yet seen, the next one last
    std::size_t held = 0;             // bytes of `names` and `starts`, when they were read
    bool has_more = false;            // `names` are not all of them
  };

  TreeWalk(DirStack dirs, WalkFor purpose, std::size_t name_bytes)
      : dirs_(std::move(dirs)), purpose_(purpose), name_bytes_(name_bytes) {}
  [[nodiscard]] mode_t needed_mode() const;
  Result<Level> enter(int dir_fd);
  Status read_names(int dir_fd, Level& level);
  Status read_more(Level& level);
  void forget_names(Level& level);
  WalkStep examine(std::string name);
  Status descend(WalkStep& step);
  Status leave();

  DirStack dirs_;
  WalkFor purpose_;
  std::size_t name_bytes_;
  std::size_t held_ = 0;  // bytes of the names in all levels
  std::vector<Level> levels_;
};

}  // namespace nodestage
