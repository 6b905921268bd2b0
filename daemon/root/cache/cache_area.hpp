// CacheArea: the cache on the disk (common/wire/worker_order.hpp). Needs root. Nothing here reads
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

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

// CacheEntry: what the daemon knows of one entry of the cache, and the entry's record, a file that
// only root can write (common/wire/worker_order.hpp).

// A time of the file system, as in struct statx.
struct ChangeTime {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;

  auto operator<=>(const ChangeTime&) const = default;
};
// Parses "SECONDS.NANOSECONDS", as the task `compare` reports it.
std::optional<ChangeTime> parse_change_time(std::string_view text);

struct CacheEntry {
  std::string name;       // "<uid>.<key>"
  std::string directory;  // the name of its directory, which no user can guess
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string tree;  // the name of the tree, or of the file, in its directory
  // What the worker of the job that staged it claims; printable and bounded:
  std::string what;
  std::string source;
  std::uint64_t source_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  JobKey made_by;
  // Of a task of an array, as far as it was known, and of a component: what its user calls it.
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
  std::uint32_t het_job = k_no_number;
  std::uint64_t made_at = 0;  // seconds since 1970
  std::string boot;           // it counts for the boot that made it alone
  // The change time of the tree's top when it was published; 0: not known.
  ChangeTime changed;
  std::uint64_t used_at = 0;  // not in the record, but the time of its directory
  // For all who may read its source: the uid is the keeper's, and made_for that of the job's user.
  bool for_readers = false;
  std::uint32_t made_for = 0;
};

// Returns the name of the user's entry with that key; "" if it is no key.
std::string entry_name(std::uint32_t uid, std::string_view key);
// Makes a name for the directory of a new entry: "<uid>.<random digits>". Other users can look for
// a name in the cache, though they cannot list it. With a name made of the key they would learn
// which user has staged what.
Result<std::string> new_entry_directory(std::uint32_t uid);
bool is_tree_name(std::string_view name);

std::string encode_entry(const CacheEntry& entry);
Result<CacheEntry> decode_entry(std::string_view json);

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
