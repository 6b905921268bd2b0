// DeliveredList: what of a job's outputs was delivered while the job ran, so that a later delivery
// copies only what has changed since.
//
// The file k_worker_delivered_fd: a header of k_delivered_head_bytes, then a record for each
// delivery of a file or link, in the order of deliveries. The last record of a name counts. Only
// the workers of one job write and read it, one at a time, with the rights of the job's user: what
// it says is a claim of that user about their own files. A header or a tail that is not complete
// (the worker was killed) reads as if it were not there: what it would say is copied again.
//
//   offset 0      u64 magic, u32 is_busy (a worker that set it has not ended by itself),
//                 text: the path of the temporary name in a target that is in use; NUL-terminated
//   then, each    u64 name (FNV-1a of the output's index, '/', and the path below its source),
//                 u64 device, u64 inode, u64 size, i64 mtime, i64 ctime (nanoseconds since 1970)
//   Native byte order.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_delivered_head_bytes = 4096;

// One thread. A file that cannot be written only costs time later: nothing is reported.
class DeliveredList {
 public:
  // Without a list: nothing was delivered, and nothing is noted.
  DeliveredList() = default;
  // Reads the list. `fd` is borrowed, and open for reading and writing.
  explicit DeliveredList(int fd);
  DeliveredList(const DeliveredList&) = delete;
  DeliveredList& operator=(const DeliveredList&) = delete;

  // Removes the temporary name that an earlier worker left when it was killed, if its base name
  // begins with `prefix` (PendingNames) and ends in ".tmp". Marks the list as busy.
  void begin(std::string_view prefix);
  // The worker ends by itself.
  void end();

  // Whether the entry looks as it did when it was delivered last. `item`: the output's index;
  // `path`: below the output's source.
  [[nodiscard]] bool has(std::size_t item, std::string_view path, const struct stat& info) const;
  // It was delivered as it looks in `info`, and is under its name in the target.
  void add(std::size_t item, std::string_view path, const struct stat& info);
  // Nothing that add() noted since the list was read may be relied on: it could not be synced.
  void take_back();
  // Before the temporary name is made in a target.
  void note_temporary(std::string_view path);

 private:
  struct Look {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t mtime = 0;
    std::int64_t ctime = 0;

    bool operator==(const Look&) const = default;
  };
  static Look look_of(const struct stat& info);

  int fd_ = -1;
  std::uint64_t end_ = k_delivered_head_bytes;
  std::unordered_map<std::uint64_t, Look> last_;  // by the hash of the name
};

}  // namespace nodestage
