// Allowance: how much this worker may write to the node's local disk, as granted by the daemon.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "common/wire/space_claim.hpp"

namespace nodestage {

// What an item will probably take, and what it takes at least.
struct Need {
  Amount expected;
  Amount least;
};

// For whom the worker stages, on which advice depends.
enum class Asker {
  job,  // of Slurm: a daemon admits it
  run,  // `nodestage run`
};

// What an allowance for data in memory may take in all: that much, which is a share of `of`.
struct MemoryShare {
  std::uint64_t most = k_no_limit;  // k_no_limit: it is for the disk
  std::uint64_t percent = 100;
  std::uint64_t of = 0;
};

// One per worker, shared by all its threads. Whatever is written is taken from it first. If it does
// not suffice, it asks the daemon for more, and the thread waits for the answer. It keeps the free
// space that the site wants left, even if others fill the disk meanwhile.
class Allowance {
 public:
  struct Places {  // borrowed
    int status_fd;
    int answer_fd;  // not a regular file: no daemon; only leave_free counts
    int dir_fd;     // any directory on the file system
    std::uint64_t leave_free = 0;
    std::string node;
    MemoryShare memory = {};  // answer_fd is none then
  };
  Allowance(const Places& places, const std::atomic<bool>& stop);

  // Sets what is called once, before the first refusal counts. It gives back what the job can do
  // without, and returns whether that made room. It must not call this object.
  void set_spare(std::function<bool()> give_up) { give_up_spare_ = std::move(give_up); }

  // Whether `need` has a part that the job can do without. A claim with it does not wait for
  // others.
  enum class Spare { none, included };
  // Call it before the item's first write. A refusal is a fault that starts with `subject`, such as
  // "PATH: needs".
  Status ask(const Need& need, const std::string& subject, Spare spare = Spare::none);

  // Returns what an item that has ended was expected to take and did not.
  void give_back(const Amount& amount);

  // Call take() before a write, and wrote() after it. Faults are texts for the user, or stopped().
  Status take(const Amount& amount);
  void wrote(const Amount& amount);

  [[nodiscard]] const std::string& node() const { return at_.node; }
  [[nodiscard]] Asker asker() const { return is_answered_ ? Asker::job : Asker::run; }
  [[nodiscard]] bool is_of_memory() const { return at_.memory.most != k_no_limit; }
  [[nodiscard]] const MemoryShare& memory() const { return at_.memory; }

 private:
  Status catch_up();
  Status check_disk();
  struct Words {  // for a refusal
    std::string subject;
    Amount need;
    Spare spare = Spare::none;
  };
  Status extend(const Amount& need, const Amount& least, const Words& words);
  bool give_up_spare();
  [[nodiscard]] Amount free() const;
  Result<SpaceAnswer> answer_to(const SpaceClaim& claim);
  [[nodiscard]] Amount taken() const { return {taken_bytes_, taken_inodes_}; }
  [[nodiscard]] Amount written() const { return {written_bytes_, written_inodes_}; }
  void set_limit(const Amount& limit);

  const Places at_;
  const bool is_answered_;
  const std::atomic<bool>& stop_;
  std::atomic<std::uint64_t> taken_bytes_ = 0;
  std::atomic<std::uint64_t> taken_inodes_ = 0;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  std::atomic<std::uint64_t> written_inodes_ = 0;
  std::atomic<std::uint64_t> reported_ = 0;  // written bytes that were last reported to the daemon
  std::atomic<std::uint64_t> limit_bytes_ = 0;
  std::atomic<std::uint64_t> limit_inodes_ = 0;
  std::atomic<std::uint64_t> checked_ = 0;  // the disk has room for this many taken bytes

  std::mutex mutex_;  // guards what follows
  std::uint64_t serial_ = 0;
  Amount need_;  // as stated
  std::function<bool()> give_up_spare_;
};

}  // namespace nodestage
