// HardLinks: which name a file with several links was first met under.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <utility>

namespace nodestage {

// Remembers a file until all its links were met, so memory follows the open ends only.
class HardLinks {
 public:
  // The name given to the first call for this file, or "" when this is the first.
  std::string first_name(const struct stat& info, const std::string& name) {
    if (info.st_nlink < 2) return "";
    const auto [entry, is_new] =
        links_.try_emplace({info.st_dev, info.st_ino}, name, info.st_nlink);
    std::string first = is_new ? "" : entry->second.first;
    if (--entry->second.second == 0) links_.erase(entry);
    return first;
  }

  // The name given to the first call holds nothing good.
  void forget(const struct stat& info) { links_.erase({info.st_dev, info.st_ino}); }

 private:
  std::map<std::pair<dev_t, ino_t>, std::pair<std::string, nlink_t>> links_;
};

}  // namespace nodestage
