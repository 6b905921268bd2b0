// Space: what one item takes of the node's local disk, and the texts for when there is too little.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

// Allowance: how much this worker may write to the node's local disk, as granted by the daemon.

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
  struct Deps {  // borrowed
    int status_fd;
    int answer_fd;  // not a regular file: no daemon; only leave_free counts
    int dir_fd;     // any directory on the file system
    std::uint64_t leave_free = 0;
    std::string node;
    MemoryShare memory = {};  // answer_fd is none then
  };
  Allowance(const Deps& deps, const std::atomic<bool>& stop);

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
  // Call it when bytes that were written have been removed again. The daemon, where one answers,
  // counts all that was ever written, and sees on the disk what is free.
  void removed(std::uint64_t bytes);

  [[nodiscard]] const std::string& node() const { return deps_.node; }
  [[nodiscard]] Asker asker() const { return is_answered_ ? Asker::job : Asker::run; }
  [[nodiscard]] bool is_of_memory() const { return deps_.memory.most != k_no_limit; }
  [[nodiscard]] const MemoryShare& memory() const { return deps_.memory; }

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
  [[nodiscard]] Amount limit() const { return {limit_bytes_, limit_inodes_}; }
  void set_limit(const Amount& limit);
  [[nodiscard]] std::string wants_more() const;

  const Deps deps_;
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

// Returns what a file of `bytes` takes in the blocks that file systems commonly use.
std::uint64_t in_blocks(std::uint64_t bytes);

// Returns what a symbolic link with a text of so many bytes takes: on ext4, one of 60 bytes has a
// block of its own.
inline Amount amount_of_link(std::size_t text_bytes) {
  return {text_bytes < 60 ? 0 : in_blocks(text_bytes), 1};
}

// Counts the blocks of one file that is written in parts, with holes between them.
class BlockCount {
 public:
  // Returns the bytes of the blocks that this part takes and the part before does not.
  std::uint64_t add(std::uint64_t offset, std::uint64_t size);

 private:
  std::uint64_t end_ = 0;  // of the last block of the part before
};

// One per item and thread; another() makes one for another thread of the same item. Everything is
// borrowed. dir_fd is any directory on the file system.
class Space {
 public:
  Space(int dir_fd, Allowance& allowance) : dir_fd_(dir_fd), allowance_(allowance) {}
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  Space(Space&& other) noexcept
      : dir_fd_(other.dir_fd_),
        allowance_(other.allowance_),
        file_bytes_(std::exchange(other.file_bytes_, 0)),
        pending_(std::exchange(other.pending_, {})),
        taken_(std::move(other.taken_)) {}
  ~Space() { allowance_.wrote(pending_); }

  [[nodiscard]] Space another() const { return {dir_fd_, allowance_, taken_}; }

  // Call these before each step: a new file, directory, or link; then data of the file that was
  // made last.
  Status will_make() {
    file_bytes_ = 0;
    return will_take({0, 1});
  }
  Status will_write(std::uint64_t bytes);
  // Instead of will_make(), for a symbolic link with a text of so many bytes.
  Status will_link(std::size_t text_bytes) {
    file_bytes_ = 0;
    return will_take(amount_of_link(text_bytes));
  }

  // Call it instead of will_make() if blocks of a file that another thread made follow.
  void goes_on() { file_bytes_ = 0; }

  // Do the same for callers that know better what was written when. Any thread.
  Status take(const Amount& amount);
  void wrote(const Amount& amount) { allowance_.wrote(amount); }
  void removed(std::uint64_t bytes) { allowance_.removed(bytes); }

  // Call it when the item and its other threads have ended. Counts all as written, and returns what
  // the item was expected to take beyond that.
  void settle(const Amount& expected);

  // Returns the fault for `name`, which could not be written; `code` is errno's value. Any thread.
  [[nodiscard]] Error explain(std::string_view name, int code) const;

 private:
  struct Taken {  // by all threads of the item
    std::atomic<std::uint64_t> bytes = 0;
    std::atomic<std::uint64_t> inodes = 0;
  };
  Space(int dir_fd, Allowance& allowance, std::shared_ptr<Taken> taken)
      : dir_fd_(dir_fd), allowance_(allowance), taken_(std::move(taken)) {}
  Status will_take(const Amount& amount);

  const int dir_fd_;
  Allowance& allowance_;
  std::uint64_t file_bytes_ = 0;
  Amount pending_;  // taken last; it counts as written at the next call
  std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

// Returns the fault for a refusal of `missing` more. It starts with `subject`, which ends in
// "needs" or the like, and then names `need`.
Error too_little_space(const std::string& subject, const std::string& node, const Amount& need,
                       const Amount& missing, const SpaceAnswer& answer, Asker asker = Asker::job);

// The same for data in memory, of which `free` bytes are left.
Error too_little_memory(const std::string& subject, const std::string& node, std::uint64_t need,
                        std::uint64_t free, const MemoryShare& share);

// Returns the fault for a disk that other jobs or programs filled.
Error disk_is_full(const std::string& node, std::uint64_t free, std::uint64_t leave_free,
                   Asker asker = Asker::job);

}  // namespace nodestage
