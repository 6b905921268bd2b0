// SourceTrust: whether what lies at a place may be kept, by the file system that it is on and by
// the site's settings.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace nodestage {

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

}  // namespace nodestage
