// CopyTree: a directory's contents, as cp -a --no-preserve=ownership,xattr copies them.
//
// Kept: modes (of files without the set-id bits), times, links as links, hard links within the
// tree, holes. FIFOs, sockets and devices are left out and counted. Whatever cannot be read is a
// fault that names it. Any depth and length of path.
#pragma once

#include <string>
#include <vector>

#include "daemon/worker/copy_file.hpp"
#include "daemon/worker/dir_stack.hpp"
#include "daemon/worker/entry_filter.hpp"
#include "daemon/worker/hard_links.hpp"
#include "daemon/worker/tree_walk.hpp"

namespace nodestage {

class CopyTree {
 public:
  struct Way {
    const EntryFilter& filter;  // its `strip` has no meaning here
    Meter& meter;
    Space& space;
  };

  // `to` (borrowed): the empty directory that is filled; `path`: the source's, for messages.
  CopyTree(int to, std::string path, Way way)
      : root_(to), to_(Fd(::fcntl(to, F_DUPFD_CLOEXEC, 0))), path_(std::move(path)), way_(way) {}

  // Everything below `from` (O_PATH is enough), then from's own mode and times.
  Status run(Fd from);

  [[nodiscard]] unsigned skipped() const { return skipped_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }  // entries but directories

 private:
  Status step(TreeWalk& walk, const WalkStep& step);
  Status enter(TreeWalk& walk, const WalkStep& step);
  Status leave(const WalkStep& step);
  Status leaf(const WalkStep& step, const std::string& path);
  Status file(const WalkStep& step, const std::string& path);
  Status symlink(const WalkStep& step, const std::string& path);
  Result<bool> linked(const WalkStep& step, const std::string& path);
  Status make_directories();
  Status finish_directory(int fd, const struct stat& info, const std::string& path) const;
  [[nodiscard]] std::string full(const std::string& path) const { return path_ + "/" + path; }

  const int root_;
  DirStack to_;
  const std::string path_;
  Way way_;
  std::vector<std::string> entered_;  // names of the directories that the walk is in
  HardLinks links_;
  unsigned skipped_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace nodestage
