// SharedLinks: hard links within a tree that several threads copy.
#pragma once

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace nodestage {

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

}  // namespace nodestage
