// LookedDirectories: the directories that a look at a tree (tree_look.hpp) has not ended with, and
// the digests of those that it has.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

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
