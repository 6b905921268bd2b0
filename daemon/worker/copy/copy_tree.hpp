// CopyTree: copies a directory's contents as cp -a --no-preserve=ownership does.
//
// Kept: modes (of files without the set-id bits), times, extended attributes and ACLs if requested,
// links as links, or in place of those that lead out of the tree what they point to, hard links
// within the tree, and holes. FIFOs, sockets, and devices are left out and counted. An entry that
// cannot be read is a fault that names it, and so is a file that is changed whenever it is read;
// one that only becomes longer is noted. Trees and paths have any depth.
//
// Several threads list directories and copy their contents. The number of threads that wait for the
// source grows with its latency.
#pragma once

#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

class CopyTree {
 public:
  struct Options {
    const EntryFilter& filter;  // its `strip` is ignored here
    Meter& meter;
    Space& space;
    mode_t umask;                 // of the process
    unsigned threads;             // threads that compute; more may wait
    XattrCopy* xattrs = nullptr;  // as in FileToCopy
    // The entries of the directory itself that are copied; null: all. A missing one is a fault.
    const std::vector<ListedName>* only = nullptr;
    LinksOut links = LinksOut::kept;
    WriteBits writes = WriteBits::kept;  // taken: neither the copies nor `to` have some in the end
    CopyListener* listener = nullptr;    // borrowed; null: nobody listens
    const SettleRules& settle = usual_settle_rules();
  };

  // `to` (borrowed) is the empty directory to fill, `path` the source's, for messages.
  CopyTree(int to, std::string path, const Options& options)
      : to_(to), path_(std::move(path)), options_(options) {}

  // Copies everything below `from` (O_PATH is enough), then from's own mode and times. Call it
  // once.
  Status run(Fd from);

  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }  // entries other than directories
  [[nodiscard]] const CopyNotes& notes() const { return notes_; }

 private:
  const int to_;
  const std::string path_;
  const Options options_;
  std::uint64_t skipped_ = 0;
  std::uint64_t taken_ = 0;
  CopyNotes notes_;
};

}  // namespace nodestage
