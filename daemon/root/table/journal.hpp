// Journal: the jobs of this node on disk, so that a daemon can carry on where another stopped,
// however that ended: a daemon that is killed loses nothing that was written, a machine nothing
// that was durable.
//
//   STATE_DIR/jobs/<job>.<restart>.json      JobRecord, replaced atomically at every change
//   STATE_DIR/jobs/<job>.<restart>.request   the user's request, as it came; root reads it only
//                                            to hand it to a worker
//
// JSON, version 1; the keys are JobRecord's. Needs root. Test: tests/unit/test_journal.cpp.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

// DiskThread: replaces small files durably while the loop goes on: a thread of its own waits for
// the disk. Whatever kills the daemon, the newest content of each file is found by the next one of
// the same boot: it is written under a temporary name before replace() returns. After a power loss,
// a file has what was durable, or what was written later.
//
//   .<name>.<number>.new   content that is not durable yet; a higher number is newer
//
// The thread syncs what has gathered meanwhile, at most some files at a time, then renames them in
// the order in which they were written, and syncs their directories once. Of several versions of
// one file, it syncs the newest. It logs nothing: the loop forks.
class DiskThread {
 public:
  explicit DiskThread(Loop& loop) : loop_(loop) {}
  // Returns when everything is durable.
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  Status start();

  // Called from the loop, when a file that replace() has written could not be made durable.
  using OnFault = std::function<void(const Error&)>;

  // Borrows the directory until the thread has ended. After a fault, nothing is replaced.
  Status replace(int dir_fd, const std::string& name, std::string_view data, OnFault on_fault);
  void remove(int dir_fd, const std::string& name);
  // Calls `done` from the loop when everything before it is durable, or has had its on_fault; at
  // once when nothing is under way.
  void then(Loop::Callback done);

 private:
  using File = std::pair<int, std::string>;  // in which directory, and its name
  struct Change {
    File file;
    std::string temporary;  // "": it is removed
    OnFault on_fault;
    Status status;
  };
  struct Fault {
    OnFault report;
    Error error;
  };
  void add(Change change);
  void run();
  void work(std::vector<Change>& changes);
  void sync_some(std::vector<Change>::iterator from, std::vector<Change>::iterator to);
  void put_in_place(Change& change);
  void look();

  Loop& loop_;
  Fd event_;  // something is done
  std::thread thread_;
  std::uint64_t number_ = 0;  // of the last temporary file
  std::deque<std::pair<std::uint64_t, Loop::Callback>> thens_;
  std::uint64_t seen_ = 0;  // done_ when the loop last looked

  std::mutex mutex_;
  std::condition_variable more_;
  std::map<std::uint64_t, Change> changes_;  // in their order
  std::map<File, std::uint64_t> newest_;     // of those
  std::uint64_t asked_ = 0;                  // changed by the loop alone
  std::uint64_t done_ = 0;
  std::vector<Fault> faults_;
  bool is_ending_ = false;

  std::map<File, std::vector<std::string>> left_;  // the thread's: temporary files after a fault
};

// Repairs what a daemon that died has left in the directory: puts the newest content of `name` that
// is whole in its place, durably, and removes the rest. No thread may be at work there.
using IsWhole = std::function<bool(const std::string& name, const std::string& content)>;
void take_unfinished(int dir_fd, std::size_t max_bytes, const IsWhole& is_whole);

std::string encode_record(const JobRecord& record);
Result<JobRecord> decode_record(std::string_view json);

class Journal {
 public:
  static Result<Journal> open(const std::string& state_dir);

  // Lets a thread wait for the disk from now on, and not the caller. It must end first. It calls
  // `on_fault` for what it cannot make durable.
  void sync_by(DiskThread& disk) { disk_ = &disk; }
  using OnFault = std::function<void(const JobKey& key, const Error& fault)>;
  void set_on_fault(OnFault on_fault) { on_fault_ = std::move(on_fault); }

  // Writes the record, which is durable by then(). Call save_request() once, before the first
  // save().
  Status save(const JobRecord& record) const;
  Status save_request(const JobRecord& record) const;
  void forget(const JobKey& key) const;
  // Calls `done` when everything before it is durable, or has had its on_fault.
  void then(Loop::Callback done) const;

  struct Loaded {
    std::vector<JobRecord> records;
    std::vector<std::string> faults;  // files that could not be read; they are left in place
  };
  // Removes what a daemon that died had started to write. Nothing else may write meanwhile.
  [[nodiscard]] Loaded load() const;

 private:
  explicit Journal(Fd directory) : directory_(std::move(directory)) {}
  [[nodiscard]] bool is_half_written(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  Status replace(const JobKey& key, const char* suffix, std::string_view data) const;
  Fd directory_;
  DiskThread* disk_ = nullptr;  // none: the caller waits
  OnFault on_fault_;
};

}  // namespace nodestage
