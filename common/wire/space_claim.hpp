// SpaceClaim and SpaceAnswer: how a staging worker asks for space on the node's local disk, and how
// the daemon admits it.
//
// The claim is the last part of the header of the worker's status file (status_file.hpp). The
// answer is a whole file, one per job, that only the daemon writes and the worker has open for
// reading (k_worker_answer_fd). Both are overwritten in place. `serial` is written last, so an
// answer with the claim's serial answers that claim. All amounts are sums since the worker's start:
// the worker can still write admitted - written. A claim is made with the user's rights: only
// decide() and SpaceLedger use it.
//
// These are files, not messages, so that a restarted daemon finds both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/result.hpp"

namespace nodestage {

// The limits of a request, for code that only passes it on.

// The request travels in an environment variable: an oversized one makes Slurm's exec of the prolog
// fail, which drains the node.
inline constexpr std::size_t k_max_request_bytes = 16 * 1024;
inline constexpr std::size_t k_max_request_items = 64;  // datasets and venv together; and outputs

struct Amount {
  std::uint64_t bytes = 0;  // in blocks of the file system
  std::uint64_t inodes = 0;

  bool operator==(const Amount&) const = default;
};

inline constexpr std::uint64_t k_no_limit = std::numeric_limits<std::uint64_t>::max();

inline std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }
inline std::uint64_t more(std::uint64_t a, std::uint64_t b) {
  return a > k_no_limit - b ? k_no_limit : a + b;
}
// Saturate at 0 and at k_no_limit.
inline Amount operator-(const Amount& a, const Amount& b) {
  return {less(a.bytes, b.bytes), less(a.inodes, b.inodes)};
}
inline Amount operator+(const Amount& a, const Amount& b) {
  return {more(a.bytes, b.bytes), more(a.inodes, b.inodes)};
}
inline Amount smaller(const Amount& a, const Amount& b) {
  return {std::min(a.bytes, b.bytes), std::min(a.inodes, b.inodes)};
}
inline Amount larger(const Amount& a, const Amount& b) {
  return {std::max(a.bytes, b.bytes), std::max(a.inodes, b.inodes)};
}
inline bool fits(const Amount& part, const Amount& whole) {
  return part.bytes <= whole.bytes && part.inodes <= whole.inodes;
}

struct SpaceClaim {
  std::uint64_t serial;      // 0: no claim yet
  Amount need;               // expected; can decrease without a new serial
  Amount least;              // the worker cannot go on with less
  Amount written;            // so far
  std::uint64_t with_spare;  // 1: the worker can do with less than `least`, and then asks again
};

struct SpaceAnswer {
  std::uint64_t serial;
  std::uint32_t granted;  // 1: `admitted` includes the claim's least
  std::uint32_t others;   // jobs that `promised` belongs to
  Amount admitted;
  Amount written;   // as the daemon read it
  Amount free;      // on the file system
  Amount promised;  // to other jobs, and not yet written
  std::uint64_t leave_free;
  std::uint64_t unused;
};

static_assert(sizeof(SpaceClaim) == 64 && std::is_trivially_copyable_v<SpaceClaim>);
static_assert(sizeof(SpaceAnswer) == 96 && std::is_trivially_copyable_v<SpaceAnswer>);

// The state of a file system, for decide().
struct Disk {
  Amount free{k_no_limit, k_no_limit};
  std::uint64_t leave_free = 0;  // bytes
  Amount promised{};             // to others
  std::uint32_t others = 0;
};

// If `least` is available, admits it, and of the rest of `need` at most half of the space that is
// then left, so that a guess does not keep other jobs out. Otherwise refuses and keeps `admitted`.
SpaceAnswer decide(const SpaceClaim& claim, const Amount& admitted, const Disk& disk);

// Free space and inodes of the file system of an open file; k_no_limit where the file system does
// not count inodes or statvfs fails.
Amount free_on(int fd);

// The worker's claim, in its status file (borrowed). write_space_claim writes all but `written`,
// and the serial last.
Status write_space_claim(int status_fd, const SpaceClaim& claim);
Status write_space_written(int status_fd, const Amount& written);
Result<SpaceClaim> read_space_claim(int status_fd);

// The daemon's answer, in its own file (borrowed). A file that is too short reads as serial 0.
Status write_space_answer(int fd, const SpaceAnswer& answer);
Result<SpaceAnswer> read_space_answer(int fd);

}  // namespace nodestage
