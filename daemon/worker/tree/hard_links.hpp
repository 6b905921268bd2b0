// HardLinks: under which name a file with several links was first met, and what was created there.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace nodestage {

// Remembers a file until all its links were met, so memory follows the files with links still to
// come.
class HardLinks {
 public:
  using Id = std::pair<dev_t, ino_t>;
  struct First {
    std::string name;
    Id copy;  // as passed to copied(); 0, 0: not yet
  };

  // What the first call for this file was given, or empty if this is the first.
  std::optional<First> first(const struct stat& info, const std::string& name) {
    if (info.st_nlink < 2) return {};
    const auto [entry, is_new] = links_.try_emplace(id(info), Link{{name, {}}, info.st_nlink});
    std::optional<First> first;
    if (!is_new) first = entry->second.first;
    if (--entry->second.left == 0) links_.erase(entry);
    return first;
  }

  // Notes that the first name is now that of `copy`.
  void copied(const struct stat& info, const struct stat& copy) {
    const auto found = links_.find(id(info));
    if (found != links_.end()) found->second.first.copy = id(copy);
  }

  // Forgets the file, since what has the name given to the first call cannot be used.
  void forget(const struct stat& info) { links_.erase(id(info)); }

  static Id id(const struct stat& info) { return {info.st_dev, info.st_ino}; }

 private:
  struct Link {
    First first;
    nlink_t left;  // names that were not met yet
  };
  std::map<Id, Link> links_;
};

}  // namespace nodestage
