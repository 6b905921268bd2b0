// Links that lead out of a tree which is staged or packed: kept as links, or followed.
//
// Whether a link leads out is decided by its text: "/x" does anywhere, and "../x" does where that
// is above the tree's top. What a followed link points to is a tree with a top of its own.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace nodestage {

// NamedCount: counts things, and keeps the name of one, for a note to the user.
// For several threads.
class NamedCount {
 public:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0 || name < first_) first_ = name;
  }

  [[nodiscard]] std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  // Returns the name that sorts first; "": there is none.
  [[nodiscard]] std::string first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::string first_;
};

enum class LinksOut { kept, followed };

// The most links that one may have to follow to get somewhere in a tree: a bound for trees whose
// links lead to each other.
inline constexpr unsigned k_max_followed_links = 16;

// Returns whether a link leads out that is `depth` directories below the top.
bool leads_out(std::string_view text, std::size_t depth);

// Returns whether a code of stat(2) means that a link leads nowhere.
bool leads_nowhere(int code);

// Counts them. For several threads.
class OutLinks {
 public:
  // Counts one that is kept, by its path below the top of all and its text.
  void add_kept(const std::string& path, const std::string& text);
  void add_followed() { ++followed_; }

  // Returns a note for the user on what became of them; "" if there are none. `key` would follow
  // those that are kept, such as "links=follow". `bytes` are those of all files of the tree.
  [[nodiscard]] std::string note(LinksOut links, std::string_view key, std::uint64_t bytes) const;

 private:
  NamedCount kept_;  // "a/b -> ../../c"
  std::atomic<std::uint64_t> followed_ = 0;
};

// UnreadableEntries: counts what is staged with a mode that keeps its owner, the job's user, from
// reading it, as in the source, or where only its group could read it.
// For several threads.
class UnreadableEntries {
 public:
  // Counts it if `mode`, of the staged file or directory with its type, is such a mode.
  void look_at(const std::string& path, mode_t mode);

  // Returns a note for the user; "" if there are none.
  [[nodiscard]] std::string note() const;

 private:
  NamedCount found_;
};

}  // namespace nodestage
