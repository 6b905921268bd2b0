// PendingName: a name in a target directory that becomes complete at once, by rename, or never.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/task_crew.hpp"

namespace nodestage {

// The temporary names of one run of a job on one node:
//   .nodestage-<job>-<node and run><random>.tmp
struct PendingNames {
  std::string prefix;
  bool may_be_left = false;  // an earlier worker of the same run may have been killed
  std::function<void(const std::string& path)> before;  // called before each is used, unless empty
};
PendingNames pending_names(const OrderHead& order);
// After an earlier try, something may be left.
PendingNames pending_names(const DeliveryOrder& order);

// The mode of a directory in a target that is filled for the first time; the inherited set-group-id
// bit is added.
inline constexpr mode_t k_unfinished_directory = 01700;

// Removes what an earlier worker of the same run, if there was one, left in a directory. Names of
// other nodes and runs, which may be at work there, stay.
void remove_leftovers(int dir_fd, const PendingNames& names);

// Owns one temporary name in a directory. What is created under it is removed unless commit()
// succeeded. dir_fd is borrowed.
class PendingName {
 public:
  PendingName(int dir_fd, const PendingNames& names);
  PendingName(const PendingName&) = delete;
  PendingName& operator=(const PendingName&) = delete;
  ~PendingName();

  [[nodiscard]] const char* c_str() const { return temporary_.c_str(); }

  // Creates it as an empty file that is open for writing.
  Result<Fd> create_file(unsigned mode) const;

  // Replaces `name`. Fails with EISDIR if that is a directory.
  Status commit(const std::string& name) const;
  // Renames to `name`. Fails with EEXIST if that exists.
  Status commit_new(const std::string& name) const;

 private:
  int dir_fd_;
  std::string temporary_;
};

// Closes `file` and returns the fault of close(): some file systems (NFS) report a full quota only
// there.
Status close_checked(Fd file);

// SyncCrew: brings what was written to stable storage, many files at once, since each fsync waits
// for the disk or the server. Other people's data are not written for it, as syncfs() of a shared
// mount would do.

// Returns whether it is the errno of a file system that cannot store at once what is asked for.
bool is_sync_refusal(int code);

class SyncCrew {
 public:
  SyncCrew() = default;
  SyncCrew(const SyncCrew&) = delete;
  SyncCrew& operator=(const SyncCrew&) = delete;
  ~SyncCrew();

  // Adds a file that was written. Waits while too many are being synced.
  void add(Fd written);

  // Adds a directory in which names were created; borrowed, O_PATH is enough. If its owner may not
  // read it, its whole file system is synced, through a file that is created there for a moment.
  Status add_directory(int directory_fd, const PendingNames& names);

  // Returns when everything added is stored. A fault says that some of it is not.
  Status finish();

 private:
  void work();
  void note(int code);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Fd> waiting_;
  unsigned at_work_ = 0;
  bool is_started_ = false;
  bool is_over_ = false;
  int fault_ = 0;  // errno of the first fault
  ThreadGroup threads_;
};

// The names that staging has given in a job directory, in the file in which the staging worker
// notes each: NUL-terminated paths below the directory. It is the user's, and only the user is
// deceived by a change of it.
using PlacedNames = std::set<std::string, std::less<>>;

// While the worker stages, and where one ended too early.
inline constexpr const char* k_partial_directory = ".nodestage-partial";
inline constexpr const char* k_placed_file = "complete";  // in it
// Afterwards, where names are known from there alone: those of a glob's matches.
inline constexpr const char* k_placed_afterwards = ".nodestage-placed";

// Parses the file. Drops a name without its end: its entry was not made.
PlacedNames parse_placed_names(std::string_view text);

// Reads the file; returns nothing if the directory has none that can be read.
std::optional<PlacedNames> read_placed_names(int job_fd);

}  // namespace nodestage
