// Space: what one item takes of the node's local disk, and the texts for when there is too little.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.hpp"
#include "common/wire/space_claim.hpp"
#include "daemon/worker/budget/allowance.hpp"

namespace nodestage {

// Returns what a file of `bytes` takes in the blocks that file systems commonly use.
std::uint64_t in_blocks(std::uint64_t bytes);

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

  // Call it instead of will_make() if blocks of a file that another thread made follow.
  void goes_on() { file_bytes_ = 0; }

  // Do the same for callers that know better what was written when. Any thread.
  Status take(const Amount& amount);
  void wrote(const Amount& amount) { allowance_.wrote(amount); }

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
