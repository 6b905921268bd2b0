// CopyLeaf: copies the entries of a tree but directories, one at a time in each of several threads.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/copy/copied_directories.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

// Returns the fault for a source's entry that could not be read; `code` is errno's value.
Error unreadable_source(const std::string& path, int code);

// Returns the fault for a source that was changed whenever it was read.
Error changed_source(const std::string& path, const SettleRules& rules);

class CopyLeaf {
 public:
  struct Options {
    const std::string& path;  // of the tree, for messages
    Meter& meter;
    CopiedDirectories& directories;
    TaskCrew& crew;
    XattrCopy* xattrs;  // as in FileToCopy
    mode_t made_modes;  // the bits of a mode that files get when they are created with it
    LinksOut links;
    CopyNotes& notes;
    WriteBits writes;
    const SettleRules& settle;
  };
  // `space` is the item's; each thread gets its own.
  CopyLeaf(const Options& options, Space& space);

  // The directory that contains the entries of a batch.
  struct At {
    CopiedDirectory& directory;
    SharedFd from;
    SharedFd to;         // once the copy exists
    std::string prefix;  // of paths below the root: "", "a/b/"
    unsigned thread;
    TaskCrew::Tasks tasks;  // made for its entries; the caller gives them to the crew
  };

  // Copies a file or link, or starts to: a large file becomes parts in at.tasks.
  Status copy(At& at, const ListedName& entry);

  // The DT_… type of what a link is copied as: its own, or that of what it leads to.
  [[nodiscard]] Result<unsigned char> type_behind(const At& at, const std::string& name) const;

  // The DT_… type of an entry, for file systems that do not list it.
  [[nodiscard]] Result<unsigned char> type_of(const At& at, const std::string& name) const;

  [[nodiscard]] Error unreadable(const std::string& path, int code) const;
  [[nodiscard]] Space& space_of(unsigned thread) { return hands_[thread].space; }

  // Call it after a task: if the source keeps threads waiting, the crew grows.
  void end_task(unsigned thread);
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  struct Name {
    CopiedDirectory* directory;
    std::string name;
  };
  struct Hand {  // one for each thread
    Space space;
    SourcePace pace = {};
  };
  enum class Links { kept, copied };
  struct OpenFile;
  struct LargeFile;
  Status to(At& at);
  Status begin(At& at, Links links);
  Status file(At& at, const std::string& name, Links links);
  Status new_file(At& at, const std::string& name, Fd from, const struct stat& info);
  void add_parts(At& at, OpenFile file);
  Status copy_part(LargeFile& large, DataRange range, unsigned thread);
  enum class Read { whole, cut_off };
  Status end_file(OpenFile& file, Read read, unsigned thread);
  Status read_until_settled(OpenFile& file, Read read, unsigned thread);
  Result<Read> read_range(const OpenFile& file, DataRange range, unsigned thread);
  Status symlink(At& at, const std::string& name, Links links);
  Result<bool> is_linked(At& at, const std::string& name, const struct stat& info, Links links);
  Status link_others(const std::string& path, const struct stat& info, unsigned thread);
  bool make_link(const std::string& first, int to, const std::string& parent_path,
                 const std::string& name) const;
  [[nodiscard]] Fd heard(const Fd& copy) const;
  void announce(const OpenFile& file, const Fd& copy) const;
  Status copy_again(CopiedDirectory& directory, const std::string& name, unsigned thread);
  [[nodiscard]] std::string full(const std::string& path) const;
  [[nodiscard]] Result<std::string> link_text(const At& at, const std::string& name) const;

  const Options options_;
  const int open_source_;  // flags
  std::vector<Hand> hands_;
  SharedLinks<Name> links_;
  std::atomic<std::uint64_t> skipped_ = 0;
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<unsigned> waits_ = 0;  // for files that were being written
};

}  // namespace nodestage
