// SpaceClaim and SpaceAnswer: how a staging worker asks for room on the node's local disk, and how
// the daemon admits it.
//
// The claim is the last part of the worker's status file header (status_file.hpp); the answer is
// the whole of a file that the daemon alone writes and the worker holds open for reading, one per
// job (k_worker_answer_fd). Both are overwritten in place; `serial` is written last, so an answer
// with the serial of the claim is an answer to it. All amounts are sums since the worker's start:
// what a worker may still write is admitted - written. A claim is made with the user's rights:
// nothing of it is believed beyond decide() and SpaceLedger.
//
// Files, not messages, so that a restarted daemon finds both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/result.hpp"

namespace nodestage {

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
// Neither goes below zero or beyond k_no_limit.
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
  std::uint64_t serial;  // 0: nothing was asked for yet
  Amount need;           // expected; it may go down without a new serial
  Amount least;          // with less the worker cannot go on
  Amount written;        // so far
  std::uint64_t unused;
};

struct SpaceAnswer {
  std::uint64_t serial;
  std::uint32_t granted;  // 1: `admitted` holds the claim's least
  std::uint32_t others;   // jobs that hold `promised`
  Amount admitted;
  Amount written;   // as the daemon had it
  Amount free;      // on the file system
  Amount promised;  // to others, and not yet written
  std::uint64_t leave_free;
  std::uint64_t unused;
};

static_assert(sizeof(SpaceClaim) == 64 && std::is_trivially_copyable_v<SpaceClaim>);
static_assert(sizeof(SpaceAnswer) == 96 && std::is_trivially_copyable_v<SpaceAnswer>);

// What there is on a file system.
struct Disk {
  Amount free{k_no_limit, k_no_limit};
  std::uint64_t leave_free = 0;  // bytes
  Amount promised{};             // to others
  std::uint32_t others = 0;
};

// Admits the least, if it is there, and of what is only expected beyond that no more than half of
// what is left then, so that no guess keeps others out. Else refuses, and what `admitted` was
// stays.
SpaceAnswer decide(const SpaceClaim& claim, const Amount& admitted, const Disk& disk);

// Free space and inodes of the file system of an open file. One without a count of inodes, or one
// that cannot be asked, has no limit.
Amount free_on(int fd);

// The worker's claim, in its status file. write: all but `written`, the serial last. fd borrowed.
Status write_space_claim(int status_fd, const SpaceClaim& claim);
Status write_space_written(int status_fd, const Amount& written);
Result<SpaceClaim> read_space_claim(int status_fd);

// The daemon's answer, in its own file. A file that is too short reads as serial 0.
Status write_space_answer(int fd, const SpaceAnswer& answer);
Result<SpaceAnswer> read_space_answer(int fd);

}  // namespace nodestage
