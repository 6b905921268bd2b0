// CacheEntry: what the daemon knows of one entry of the cache, and the entry's record, a file that
// only root can write (common/wire/shared_item.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

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
  // Of a task of an array, as far as it was known: what its user calls it.
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
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
// Returns whether it can be the name of a tree.
bool is_tree_name(std::string_view name);

std::string encode_entry(const CacheEntry& entry);
Result<CacheEntry> decode_entry(std::string_view json);

}  // namespace nodestage
