// PrivateDirectory: the directories of `nodestage run`, which only its caller can enter.
#pragma once

#include <functional>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// What the names of all of them begin with.
inline constexpr const char* k_private_name = "nodestage-run-";

// Returns where they are created: `wanted`, with ~ expanded, and made absolute. If empty: $TMPDIR,
// else /tmp.
Result<std::string> private_parent(const std::string& wanted);

// Opens a directory that only its caller can enter; EPERM if it is another. Does not enter what is
// mounted there (EXDEV): a file system of another user (FUSE with allow_other) shows any owner and
// mode, and answers when it likes.
Result<Fd> open_private(const std::string& path);

// Returns what distinguishes a directory from every other one that lies at its path at another
// time: device, inode, and time of birth.
Result<std::string> mark_of(int directory_fd);

// A directory with mode 0700 and a unique name. The destructor removes it with its contents unless
// kept.
class PrivateDirectory {
 public:
  // Creates it below private_parent(parent), which must exist.
  static Result<PrivateDirectory> make(const std::string& parent);
  // Takes one of the caller's that a process has left, whatever its mode; EPERM if its mark is
  // another. It stays unless remove() is called.
  static Result<PrivateDirectory> adopt(const std::string& path, const std::string& mark);
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  ~PrivateDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The fault names what could not be removed. `must_stop` is that of remove_tree_contents().
  Status remove(const std::function<bool()>& must_stop = {});
  void keep() { is_ours_ = false; }

 private:
  PrivateDirectory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
  bool is_ours_ = true;
};

}  // namespace nodestage
