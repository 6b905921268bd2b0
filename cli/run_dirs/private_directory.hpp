// PrivateDirectory: the directories of `nodestage run`, which only its caller can enter.
//
// Each kind has names of its own, since a later run treats what a killed one has left by its kind
// (cli/run/run.hpp). Whoever made one has a flock on it, where the file system has such
// locks, and so have the guard of its command and the workers that got its descriptor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/process/worker_child.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

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

// PushDirectory: what others must know of a `nodestage run`, in place of a daemon: `nodestage push`
// inside of it, and the next `run` if this one is killed. It is the first directory that a run
// makes. COMMAND knows it by NODESTAGE_PUSH_DIR, and the job directory lies beside it
// (path_beside()).
//
//   alive    the first file. The run has a flock on it while it lives. So has the guard of its
//            command (cli/process/command_process.hpp), until the command has exited. Where flock
//            holds for one host only, others see no lock: it contains the boot_id() of the run's
//            host. Where the file system has no flock, it cannot be locked: nobody takes the run
//            over
//   list     k_worker_delivered_fd. Whoever has a flock on it delivers; a worker inherits the lock,
//            so that it lasts until no worker can write to a target any more
//   closed   the list, renamed, once COMMAND has exited: no push starts, and one under way is
//            called off. A new file could not be made on a full disk
//   order    StageOutOrder as JSON
//   request  the request as JSON
//   program  the worker's path
//   mark     mark_of() the job directory: only that is removed. The last file: without it, the job
//            directory is empty

inline constexpr const char* k_push_directory_variable = "NODESTAGE_PUSH_DIR";

// One push of the caller, who has the lock as long as this or its worker lives.
struct PushTurn {
  Fd list;
};

class PushDirectory {
 public:
  // Creates it for `run` below `parent` (PrivateDirectory). It is removed with this object.
  static Result<PushDirectory> make(const std::string& parent);
  // Creates the job directory.
  [[nodiscard]] Result<PrivateDirectory> make_job_directory() const {
    return PrivateDirectory::make_beside(PrivateKind::job, *own_);
  }
  // Records what the run does in that, before anything is put there.
  Status record(const StageOutOrder& order, const std::string& request, const std::string& program,
                int job_directory_fd);
  // Opens it for `push`; EPERM if it is not a directory that only its caller can enter. Removes
  // nothing.
  static Result<PushDirectory> open(const std::string& path);
  // Takes over, for the next `run`, that of a run that was killed or lives on another host. It
  // stays unless remove() is called. Refuses if the run or a worker of it lives on this host, or if
  // the path is something else. ENOENT: it has no `alive`.
  static Result<PushDirectory> take_over(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const StageOutOrder& order() const { return order_; }
  [[nodiscard]] const std::string& request() const { return request_; }

  // Sets the order, after the staging, which adds to it.
  Status set_order(const StageOutOrder& order);

  // Returns where the job directory is.
  [[nodiscard]] std::string job_path() const { return path_beside(PrivateKind::job, path_); }
  // Returns the mark of the job directory; "" before record().
  [[nodiscard]] const std::string& mark() const { return mark_; }
  // Returns, after take_over(), the boot_id() of the run's host.
  [[nodiscard]] const std::string& boot() const { return boot_; }
  Status remove() { return own_->remove(); }

  // Calls off what is under way. The caller waits for its turn after that.
  Status close();
  [[nodiscard]] bool is_closed() const;

  // Takes a turn; returns nothing while another push is under way. Never blocks.
  [[nodiscard]] Result<std::optional<PushTurn>> take_turn() const;

  // Takes the turn of the stage-out, after close(). Without flock, no push has had a turn.
  [[nodiscard]] Result<std::optional<PushTurn>> take_last_turn() const;

  // Starts a worker for the outputs that `order` names (PushOrder::push_all and so on). The
  // worker takes the turn over: from here on, only its end gives the turn to the next.
  // `directory_fd`: the job directory, borrowed.
  [[nodiscard]] Result<WorkerChild> start(PushTurn turn, WorkerOrder order, int directory_fd) const;

 private:
  PushDirectory() = default;
  Status read();

  std::optional<PrivateDirectory> own_;
  std::string path_;
  Fd fd_;     // of an opened one
  Fd alive_;  // has the lock
  StageOutOrder order_;
  std::string request_;
  std::string program_;
  std::string mark_;
  std::string boot_;

  [[nodiscard]] int fd() const { return own_ ? own_->fd() : fd_.get(); }
};

}  // namespace nodestage
