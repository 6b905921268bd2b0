// PrivateDirectory: the directories of `nodestage run`, which only its caller can enter.
//
// Each kind has names of its own, since a later run treats what a killed one has left by its kind
// (cli/run/dead_runs.hpp). Whoever made one has a flock on it, where the file system has such
// locks, and so have the guard of its command and the workers that got its descriptor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

enum class PrivateKind {
  job,     // $SLURM_TMPDIR of COMMAND. It can have results that are nowhere else
  record,  // PushDirectory: the run's entry, which lies beside its job directory
  memory,  // has the items with in=memory, which are copies
};

// Returns what the names of a kind begin with: "nodestage-run-" for job.
std::string_view private_prefix(PrivateKind kind);
// Returns the kind of which this can be the name of one.
std::optional<PrivateKind> private_kind(std::string_view name);

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
  static Result<PrivateDirectory> make(PrivateKind kind, const std::string& parent);
  // Creates one of that kind beside `other`, with the same end of its name (path_beside()).
  static Result<PrivateDirectory> make_beside(PrivateKind kind, const PrivateDirectory& other);
  // Takes one of the caller's that a process has left, whatever its mode; EPERM if its mark is
  // another. It stays unless remove() is called.
  static Result<PrivateDirectory> adopt(const std::string& path, const std::string& mark);
  // Does the same by its lock alone: EWOULDBLOCK if a process of the run lives.
  static Result<PrivateDirectory> adopt_unlocked(const std::string& path);
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

// Returns the path of the one of that kind that belongs to the one at `path`.
std::string path_beside(PrivateKind kind, const std::string& path);

}  // namespace nodestage
