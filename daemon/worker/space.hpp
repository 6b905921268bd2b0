// Space: what one item takes of the node's local disk, and the words when there is too little.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/space_claim.hpp"
#include "daemon/worker/allowance.hpp"

namespace nodestage {

// What a file of `bytes` takes, in the blocks that file systems commonly use.
std::uint64_t in_blocks(std::uint64_t bytes);

// One per item and thread. Both are borrowed; dir_fd is any directory on the file system.
class Space {
 public:
  Space(int dir_fd, Allowance& allowance) : dir_fd_(dir_fd), allowance_(allowance) {}

  // Before each: a new file, directory or link; then data of the file that was made last.
  Status will_make() {
    file_bytes_ = 0;
    return take({0, 1});
  }
  Status will_write(std::uint64_t bytes);

  // Instead of will_make(): what follows are blocks of a file that another thread has made.
  void goes_on() { file_bytes_ = 0; }

  // One for another thread of the same item, and its end: what it took was taken by this one.
  [[nodiscard]] Space another() const { return {dir_fd_, allowance_}; }
  void join(const Space& ended);

  // The item has ended: all is written, and what it was expected to take beyond that is free again.
  void settle(const Amount& expected);

  // The fault for `name` that could not be written, from errno's value.
  [[nodiscard]] Error explain(std::string_view name, int code) const;

 private:
  Status take(const Amount& amount);
  const int dir_fd_;
  Allowance& allowance_;
  std::uint64_t file_bytes_ = 0;
  Amount pending_;  // taken last, and written when the next is taken
  Amount taken_;
};

// The fault for a refusal of `missing` more; it begins with `subject`, which ends in "needs" or the
// like, and then tells of `need`.
Error too_little_space(const std::string& subject, const std::string& node, const Amount& need,
                       const Amount& missing, const SpaceAnswer& answer);

// The fault for a disk that others have filled.
Error disk_is_full(const std::string& node, std::uint64_t free, std::uint64_t leave_free);

}  // namespace nodestage
