// SourceTrust: whether what lies at a place may be kept, by the file system that it is on and by
// the site's settings.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// Asks the kernel for what changes of an open file when the file does.

inline constexpr std::int64_t k_ns_per_s = 1'000'000'000;

// `Time` is timespec or statx_timestamp.
template <typename Time>
std::int64_t nanoseconds(const Time& time) {
  return time.tv_sec * k_ns_per_s + time.tv_nsec;
}

struct FileLook {
  std::uint64_t device = 0;
  std::uint64_t file_system = 0;  // f_fsid of statfs(2), or number_of_mounted() where that is 0
  std::uint64_t inode = 0;
  std::uint64_t size = 0;  // bytes
  std::int64_t mtime = 0;  // nanoseconds since 1970
  std::int64_t ctime = 0;  // likewise
  std::uint32_t mode = 0;  // with the file's type

  bool operator==(const FileLook&) const = default;
};

// Asks the file's server, not a cache. `fd` may be O_PATH.
Result<FileLook> look_at(int fd);

// Returns a number for what is mounted, "server:/export" and the type: NFS and FUSE give none, and
// the device's number is another mount's once it is unmounted. 0 if it is unknown. It takes 2^64
// tries to name an export so that it has the number of another one. `mountinfo` and `mount`: as in
// common/os/mounts.hpp.
std::uint64_t number_of_mounted(std::string_view mountinfo, std::string_view mount);

// Returns whether the file system of a mount reports reliably when a file changes: not if it is
// unknown, a FUSE mount of an ordinary user, or NFS without close-to-open consistency (`nocto`).
// `mountinfo` and `mount`: as in common/os/mounts.hpp.
bool reports_changes(std::string_view mountinfo, std::string_view mount);

// Returns the path without links; the same path if that cannot be found out.
std::string resolved(const std::string& path);

// For several threads.
// Whether no ordinary user can have made or mounted the file system of what is open, and the mount
// is in this process's mount name space. Asks the kernel alone, not the file's server. `fd` may be
// O_PATH.
bool is_of_the_site(int fd);

class SourceTrust {
 public:
  // Whether every user of the node sees the same file, and the same of it, under what the kernel
  // says of it. Not if an ordinary user can have made or mounted the file system (FUSE, overlayfs
  // and tmpfs in a user name space), or if the mount is not in this process's mount name space.
  enum class For { one_user, all_readers };

  // `never`: the directories from which this site keeps nothing; borrowed.
  explicit SourceTrust(const std::vector<std::string>& never, For whom = For::one_user)
      : never_(never), for_(whom) {}
  SourceTrust(const SourceTrust&) = delete;
  SourceTrust& operator=(const SourceTrust&) = delete;

  // Returns why a file or directory must not be kept; "" if it may be. `path` is as the user gave
  // it; `fd` (O_PATH is enough) has it open.
  [[nodiscard]] std::string objection(const std::string& path, int fd);

  // The same of a directory with everything in it. What is mounted in it is not looked at.
  [[nodiscard]] std::string objection_to_all(const std::string& path, int fd);

 private:
  bool is_reliable(int fd);

  const std::vector<std::string>& never_;
  const For for_;
  std::mutex mutex_;                    // guards what follows
  std::map<std::string, bool> mounts_;  // whether they report changes
};

// LookedDirectories: the directories that a look at a tree (tree_look.hpp) has not ended with, and
// the digests of those that it has.

using TreeDigest = std::array<unsigned char, 32>;
using EntryInfo = struct statx;

// The digest of a text, followed by other digests.
Result<TreeDigest> digest_of(std::string_view text, const std::vector<TreeDigest>& below = {});

// Adds what is in the digest of an entry. No name has a NUL, so no two entries have the same text.
void add_text(std::string& text, std::string_view name, const EntryInfo& info);

dev_t device_of(const EntryInfo& info);

struct LookedAt {
  enum class As { itself, link };  // what has its name: itself, or a link to it
  LookedAt(LookedAt* above, std::string its_name, const EntryInfo& info, As as);

  LookedAt* const parent;  // null: the top
  const std::string name;
  const dev_t device;
  const ino_t inode;
  const std::size_t depth;  // below the top, or below the last link on the way
  const unsigned links;     // on the way
  // What was not looked at yet, the listing of its names included.
  std::atomic<std::size_t> parts = 1;

  void add(const std::vector<TreeDigest>& digests);  // of entries in it

  // Whether it, or a directory above it, is that of `info`.
  [[nodiscard]] bool is_in(const EntryInfo& info) const;
  // Returns the path of an entry in it, below the top.
  [[nodiscard]] std::string path_of(std::string_view entry) const;

 private:
  friend class LookedDirectories;
  std::string text_;  // of itself
  std::mutex mutex_;
  std::vector<TreeDigest> entries_;  // so far; guarded by mutex_
  std::list<std::unique_ptr<LookedAt>>::iterator self_;
};

// For several threads.
class LookedDirectories {
 public:
  // Adds a directory, with one part. It is a part of `parent`, which the caller has counted; null:
  // it is the top.
  LookedAt& add(LookedAt* parent, const std::string& name, const EntryInfo& info, LookedAt::As as);

  // Ends a part of a directory. The last part ends the directory, and so a part of its parent.
  Status end_part(LookedAt& directory);

  // Returns the digest of the top, once that has ended.
  [[nodiscard]] const TreeDigest& digest() const { return digest_; }

 private:
  TreeDigest digest_{};
  std::mutex mutex_;  // guards what follows
  std::list<std::unique_ptr<LookedAt>> all_;
};

}  // namespace nodestage
