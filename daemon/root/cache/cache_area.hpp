// CacheArea: the cache on the disk (common/wire/shared_item.hpp). Needs root. Nothing here reads
// what a user wrote, and whatever a process does to its user's tree, only that user is affected.
//
// The way of an entry, so that after a crash at any moment nothing counts that is not whole:
//   reserve()  a draft of its record, and its directory, with a link to itself as the tree
//   publish()  the tree and the link change places, in one step; then the draft becomes the record
//   make_work() of an entry for readers, a directory beside it, DIRECTORY.work, which is removed
//   when
//              the tree is in place
//   discard()  the record is removed first, then the tree is moved to the trash in its directory
// Nothing is synced: an entry counts for the boot that made it, and after a power loss that is
// over.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/cache/cache_entry.hpp"

namespace nodestage {

class CacheArea {
 public:
  // `boot` is the text of /proc/sys/kernel/random/boot_id.
  CacheArea(Areas& areas, std::string boot) : areas_(areas), boot_(std::move(boot)) {}
  static std::string this_boot();

  // Returns the entries that count. Removes everything else, but completes what an earlier daemon
  // of this boot had put in place.
  [[nodiscard]] std::vector<CacheEntry> load();

  // Returns the path where jobs find the tree.
  [[nodiscard]] std::string path_of(const CacheEntry& entry) const;

  // Makes the directory of an entry whose name, directory, tree, uid and gid are set. Removes what
  // is left of an earlier try.
  Status reserve(CacheEntry entry);
  // Puts the tree that lies at `destination` below job_fd (borrowed) into the reserved entry, and a
  // link to it there. Sets what is known by then: made_at, boot, changed. After a fault the entry
  // is discarded, and the tree is where it was, unless its owner has interfered.
  Status publish(CacheEntry& entry, int job_fd, const std::string& destination);
  // Removes the entry. Succeeds when there is none.
  Status discard(const CacheEntry& entry);

  // Of an entry for readers: makes the directory, of its own user, in which it is staged, and
  // removes it with what is left in it.
  [[nodiscard]] Result<Fd> make_work(const CacheEntry& entry) const;
  [[nodiscard]] Result<Fd> open_work(const CacheEntry& entry) const;
  [[nodiscard]] std::string work_path(const CacheEntry& entry) const;
  void remove_work(const CacheEntry& entry) const;
  // Lets exactly these users enter an entry for readers.
  [[nodiscard]] Status let_in(const CacheEntry& entry, const std::set<std::uint32_t>& uids) const;

  // Opens the tree for `compare`; a regular file for reading, too.
  [[nodiscard]] Result<Fd> open_tree(const CacheEntry& entry) const;
  // Notes, as the time of its directory, that a job has begun or ended to use it.
  void touch(const CacheEntry& entry) const;

 private:
  [[nodiscard]] std::optional<CacheEntry> read(const std::string& name, const char* suffix) const;
  [[nodiscard]] std::optional<CacheEntry> load_entry(const std::string& name);
  enum class WriteBits { refused, ignored };
  [[nodiscard]] Result<ChangeTime> look_at_tree(int dir_fd, const CacheEntry& entry,
                                                WriteBits bits = WriteBits::refused) const;
  Status make(const CacheEntry& entry) const;
  Status exchange(const CacheEntry& entry, int job_fd, const std::string& destination) const;
  void finish(CacheEntry& entry) const;
  Status discard_directory(int directory_fd, const CacheEntry& entry);
  void remove_file(const std::string& name) const;

  Areas& areas_;
  const std::string boot_;
};

}  // namespace nodestage
