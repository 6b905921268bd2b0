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
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class DiskThread {
 public:
  explicit DiskThread(Loop& loop) : loop_(loop) {}
  // Returns when everything is durable.
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;
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

}  // namespace nodestage
