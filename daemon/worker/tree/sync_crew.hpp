// SyncCrew: brings what was written to stable storage, many files at once, since each fsync waits
// for the disk or the server. Other people's data are not written for it, as syncfs() of a shared
// mount would do.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/worker/basis/thread_group.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

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

}  // namespace nodestage
