// Allowance: how much this worker may write to the node's local disk, as the daemon has admitted.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "common/wire/space_claim.hpp"

namespace nodestage {

// What an item is expected to take, and what it takes at least.
struct Need {
  Amount expected;
  Amount least;
};

// One per worker, shared by all its threads. Whatever is written is taken from it first; when it
// does not suffice, the daemon is asked for more, and the thread waits for the answer. The free
// space that the site wants left is kept, whoever else fills the disk meanwhile.
class Allowance {
 public:
  struct Places {  // borrowed
    int status_fd;
    int answer_fd;  // no regular file: there is no daemon, and only leave_free counts
    int dir_fd;     // any directory on the file system
    std::uint64_t leave_free = 0;
    std::string node;
  };
  Allowance(const Places& places, const std::atomic<bool>& stop);

  // Before its first write. Refused: a fault that begins with `subject`, such as "PATH: needs".
  Status ask(const Need& need, const std::string& subject);

  // Of an item that has ended: what it was expected to take and did not.
  void give_back(const Amount& amount);

  // Before a write, and after it. The faults are in the words of the user, or stopped().
  Status take(const Amount& amount);
  void wrote(const Amount& amount);

  [[nodiscard]] const std::string& node() const { return at_.node; }

 private:
  Status catch_up();
  Status check_disk();
  struct Words {  // for a refusal
    std::string subject;
    Amount need;
  };
  Status extend(const Amount& need, const Amount& least, const Words& words);
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
  std::atomic<std::uint64_t> told_ = 0;  // written bytes, as the daemon was told last
  std::atomic<std::uint64_t> limit_bytes_ = 0;
  std::atomic<std::uint64_t> limit_inodes_ = 0;
  std::atomic<std::uint64_t> checked_ = 0;  // the disk has room for so many bytes taken

  std::mutex mutex_;  // over what follows
  std::uint64_t serial_ = 0;
  Amount need_;  // as stated
};

}  // namespace nodestage
