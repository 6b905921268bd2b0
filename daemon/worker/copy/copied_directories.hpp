// CopiedDirectories: the directories that the copy of a tree is working on, on both sides.
//
// Only a few are open at a time. The others are opened again by path when needed, never through a
// link but those that were followed, and only if the same directory is still there (otherwise
// ESTALE). Any depth.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/copy/copy_file.hpp"

namespace nodestage {

// SharedLinks: hard links within a tree that several threads copy.
// The thread that first meets a file with several links copies it. A thread that meets the file
// meanwhile leaves its name here, and the first thread makes that link, too: no thread waits for
// another. A file is remembered until all its links were met, so memory depends only on files with
// links still to come. `Name` is what a link needs.
template <typename Name>
class SharedLinks {
 public:
  struct Met {
    enum class Turn {
      copy,  // the first: copy it, then call done()
      link,  // make a link to `first`
      left,  // left to the copying thread; nothing more to do
    };
    Turn turn;
    std::string first;  // path of the copy that is complete
  };

  // Says what to do with the next name of a file. `path` is what others link to.
  Met meet(const struct stat& info, const std::string& path, const Name& name) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = files_.try_emplace(key(info), File{path, info.st_nlink, {}});
    File& file = entry->second;
    if (file.names_left > 0) --file.names_left;
    if (is_new) return {Met::Turn::copy, ""};
    if (!file.is_done) {
      file.waiting.push_back(name);
      return {Met::Turn::left, ""};
    }
    Met met{Met::Turn::link, file.path};
    if (file.names_left == 0) files_.erase(entry);
    return met;
  }

  // Notes that the file is complete under its first name. Returns the links to make.
  std::vector<Name> done(const struct stat& info) {
    const std::lock_guard lock(mutex_);
    const auto entry = files_.find(key(info));
    if (entry == files_.end()) return {};
    entry->second.is_done = true;
    std::vector<Name> waiting = std::move(entry->second.waiting);
    if (entry->second.names_left == 0) files_.erase(entry);
    return waiting;
  }

 private:
  using Key = std::pair<dev_t, ino_t>;
  static Key key(const struct stat& info) { return {info.st_dev, info.st_ino}; }
  struct File {
    std::string path;
    nlink_t names_left;
    std::vector<Name> waiting;
    bool is_done = false;
  };
  std::mutex mutex_;
  std::map<Key, File> files_;
};

using SharedFd = std::shared_ptr<const Fd>;  // closed when nobody uses it any more

struct CopiedDirectory {
  enum class Entry { itself, link };  // what has its name in the source: itself, or a link to it
  CopiedDirectory(CopiedDirectory* above, std::string its_name, const struct stat& source,
                  Entry as = Entry::itself)
      : parent(above),
        name(std::move(its_name)),
        info(source),
        entry(as),
        depth(above == nullptr || as == Entry::link ? 0 : above->depth + 1),
        links(above == nullptr ? 0 : above->links + (as == Entry::link ? 1 : 0)) {}

  CopiedDirectory* const parent;  // null: the root
  const std::string name;
  const struct stat info;  // of the source
  const Entry entry;
  const std::size_t depth;  // below the root, or below the last link on the way
  const unsigned links;     // on the way

 private:
  friend class CopiedDirectories;
  std::atomic<std::size_t> parts = 1;  // not copied yet, the listing of its names included
  std::mutex making;                   // guards the first open of the copy
  std::atomic<bool> is_made = false;
  dev_t made_device = 0;
  ino_t made_inode = 0;

  SharedFd from;  // guarded, with what follows, by CopiedDirectories::mutex_
  SharedFd to;
  std::list<CopiedDirectory*>::iterator turn;
  std::list<std::unique_ptr<CopiedDirectory>>::iterator self;
};

// For several threads. Call these for a directory only within a part of it that has not ended.
// Faults of from() are the cause alone; those of the others are texts for the user.
class CopiedDirectories {
 public:
  // Takes the root on both sides, open for reading; `to` is the directory that is filled. Borrows
  // `notes`. `xattrs` is that of FileToCopy.
  CopiedDirectories(Fd from, Fd to, const struct stat& info, CopyNotes& notes,
                    XattrCopy* xattrs = nullptr);
  CopiedDirectories(const CopiedDirectories&) = delete;
  CopiedDirectories& operator=(const CopiedDirectories&) = delete;

  [[nodiscard]] CopiedDirectory& root() const { return *root_; }
  [[nodiscard]] int target_root() const { return root_to_->get(); }

  // Adds a directory below `parent`, as a part of that. It starts with one part.
  CopiedDirectory& add(CopiedDirectory& parent, std::string name, const struct stat& info, Fd from,
                       CopiedDirectory::Entry entry = CopiedDirectory::Entry::itself);

  // Opens the source, for *at calls.
  Result<SharedFd> from(CopiedDirectory& directory);

  // Opens the copy. The first call makes it and all directories above it.
  Result<SharedFd> to(CopiedDirectory& directory, Space& space);

  static void begin_part(CopiedDirectory& directory) { ++directory.parts; }

  // Ends a part. The last one sets mode and times, and destroys the object and maybe its parent.
  Status end_part(CopiedDirectory& directory, const Space& space);

  // Returns the path below the root, "" for the root: "a/b".
  static std::string path(const CopiedDirectory& directory);

 private:
  SharedFd open_one(CopiedDirectory& directory, SharedFd CopiedDirectory::*side);
  Result<Fd> open_source(CopiedDirectory& directory);
  SharedFd keep(CopiedDirectory& directory, SharedFd CopiedDirectory::*side, Fd fd);
  Status make(CopiedDirectory& directory, Space& space);
  Result<SharedFd> open_again(CopiedDirectory& directory);
  Status finish(CopiedDirectory& directory, SharedFd& below, const Space& space);
  void remove(CopiedDirectory& directory);

  Status finish_xattrs(CopiedDirectory& directory, int to, const Space& space);

  CopyNotes& notes_;
  XattrCopy* const xattrs_;
  SharedFd root_from_;
  SharedFd root_to_;
  std::mutex mutex_;  // guards what follows
  std::list<std::unique_ptr<CopiedDirectory>> all_;
  std::list<CopiedDirectory*> turns_;  // directories with open descriptors, the latest last
  CopiedDirectory* root_;
};

}  // namespace nodestage
