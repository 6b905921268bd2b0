// WorkerProcess: one nodestage-worker, from fork to exit.
//
// start() forks a child that enters its cgroup, gives up root (privileges.hpp), and becomes the
// worker with exactly the descriptors of common/wire/worker_order.hpp. The parent never waits: it
// watches started_fd() and pid_fd() in its loop. start() needs root.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/cgroup.hpp"

namespace nodestage {

// Gives up root for good, in a forked child that will become a worker.
enum class Groups {
  resolve,  // all supplementary groups of the user, from NSS: may take long or forever
  primary,  // none but the given gid
};

struct Identity {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;  // for the supplementary groups
};

// Turns the calling process, which must be uid 0 and single-threaded, into `identity`: groups, gid
// and uid (real, effective, saved), empty capability sets (bounding set included), no_new_privs.
// Then verifies that none of it can be taken back. Refuses a uid or gid of 0.
Status become(const Identity& identity, Groups groups);

// Does the same for a system user by name, without supplementary groups. Asks NSS.
Status become_user(const std::string& user);

// Keeps uid 0 but only what removing files of any owner needs (CAP_DAC_OVERRIDE,
// CAP_DAC_READ_SEARCH, CAP_FOWNER), with no_new_privs.
Status become_remover();

// Keeps uid 0 without any capability, with no_new_privs.
Status drop_capabilities();

// Helper: a child of the daemon that serves it over a SOCK_SEQPACKET pair and exits with it. It
// does what may block or needs no privilege.
class Helper {
 public:
  // Runs in the child, as root. The child's end of the channel is k_peer_channel_fd, that of a pair
  // with another helper k_signer_fd, its stderr is the daemon's, and it has no other descriptor.
  // Returns the exit code.
  using Body = std::function<int()>;
  using OnPacket = std::function<void(std::string_view)>;
  // Called when the child has exited. It may destroy the Helper.
  using OnEnd = std::function<void()>;

  static Result<std::unique_ptr<Helper>> start(Loop& loop, const Body& body, const Fd& to_other,
                                               OnPacket on_packet, OnEnd on_end);
  Helper(const Helper&) = delete;
  ~Helper();

  // Never blocks: keeps what the child does not read in time; returns false if it is too much.
  bool send(std::string packet);

 private:
  Helper(Loop& loop, OnPacket on_packet, OnEnd on_end)
      : loop_(loop), on_packet_(std::move(on_packet)), on_end_(std::move(on_end)) {}
  Status watch();
  void readable();
  void flush();
  void ended();

  Loop& loop_;
  OnPacket on_packet_;
  OnEnd on_end_;
  ChildProcess child_;
  Fd pid_fd_;
  Fd channel_;
  bool open_ = true;  // until it closes its end
  std::deque<std::string> unsent_;
};

// Everything start() needs. Descriptors are borrowed.
struct WorkerStart {
  std::string program;
  std::string cgroup;  // made by the caller
  WorkerOrder order;
  Groups groups = Groups::resolve;
  std::string request;
  int status_fd = -1;
  int directory_fd = -1;
  int rate_fd = -1;
  int answer_fd = -1;
  // Open for reading and writing; -1: none.
  int delivered_fd = -1;
  int board_fd = -1;
  int spool_fd = -1;
  int sources_fd = -1;
  int memory_fd = -1;
  std::vector<int> fuse_fds;  // at most k_max_images
  // Of the job (cgroup.hpp): the worker's memory is charged to it. Empty: to `cgroup`.
  std::string job_cgroup;
};

std::chrono::milliseconds age_of(const ProcessMark& mark);

struct WorkerEnd {
  enum class Kind {
    done,         // it exited with code 0
    ended,        // it exited with another code, or a daemon before this one had started it
    killed,       // by a signal
    not_started,  // it never became the worker; `text` says why
    over_limit,   // its time limit passed, or it came no further, and it was killed
    no_memory,    // the kernel killed it at its cgroup's memory limit
    job_memory,   // the same at the limit of the job, whose memory cgroup it was in
    stuck,        // killed, but blocked in the kernel (a dead file system); given up
    step_gone,    // as not_started: the step whose memory cgroup it was to enter had ended
  };
  Kind kind = Kind::ended;
  std::string text;  // "ended with code 1"
};

// The process outlives this object, and the daemon.
class WorkerProcess {
 public:
  // The code of the start fault of a worker that would have been in the job's memory cgroup.
  static constexpr int k_step_gone = EOWNERDEAD;

  static Result<WorkerProcess> start(const WorkerStart& start, const Cgroups& cgroups);

  // Returns the process that `mark` names, if it still runs.
  static std::optional<WorkerProcess> adopt(const ProcessMark& mark);

  [[nodiscard]] const ProcessMark& mark() const { return mark_; }

  // Readable when the process has exited.
  [[nodiscard]] int pid_fd() const { return pid_fd_.get(); }

  // Readable once: the worker runs (no read_start_fault()) or could not be started. -1 if
  // adopted or already read.
  [[nodiscard]] int started_fd() const { return started_.get(); }
  Status read_start_fault();

  // Returns the worker's stdout and stderr; -1 if adopted.
  [[nodiscard]] int log_fd() const { return log_.get(); }

  void kill() const;

  // Call it when pid_fd() is readable. Of an adopted process nothing is known.
  [[nodiscard]] WorkerEnd reap();

 private:
  WorkerProcess() = default;
  ProcessMark mark_;
  ChildProcess child_;  // none: adopted
  Fd pid_fd_;
  Fd started_;
  Fd log_;
};

}  // namespace nodestage
