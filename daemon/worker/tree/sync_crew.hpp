// SyncCrew: brings what was written to stable storage, many files at once: one fsync waits for the
// disk or the server, and nobody else's data are written for it, as syncfs() of a shared mount
// would.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/worker/basis/thread_group.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

// The errno of a file system that cannot store at once what is asked for.
bool is_sync_refusal(int code);

class SyncCrew {
 public:
  SyncCrew() = default;
  SyncCrew(const SyncCrew&) = delete;
  SyncCrew& operator=(const SyncCrew&) = delete;
  ~SyncCrew();

  // A file that was written. Waits while too many are under way.
  void add(Fd written);

  // A directory in which names were made; borrowed, O_PATH is enough. Where its owner may not read
  // it, its whole file system is stored at once, by a file that is made there for a moment.
  Status add_directory(int directory_fd, const PendingNames& names);

  // Until all that were added are stored, or a fault tells that some are not.
  Status finish();

 private:
  void work();
  void note(int code);

  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::deque<Fd> waiting_;
  unsigned at_work_ = 0;
  bool is_started_ = false;
  bool is_over_ = false;
  int fault_ = 0;  // errno of the first
  ThreadGroup threads_;
};

}  // namespace nodestage
