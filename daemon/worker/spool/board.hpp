// Board: the RelayBoard (common/wire/relay_board.hpp), mapped into this process.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/result.hpp"
#include "common/wire/relay_board.hpp"

namespace nodestage {

class Board {
 public:
  // `fd`: k_worker_board_fd, borrowed. A fault if it is not a file of that size.
  static Result<Board> map(int fd);
  Board(Board&& other) noexcept;
  Board& operator=(Board&& other) noexcept;
  ~Board();

  RelayBoard& operator*() const { return *board_; }
  RelayBoard* operator->() const { return board_; }

 private:
  explicit Board(RelayBoard* board) : board_(board) {}
  RelayBoard* board_;
};

// Raises the word by one and wakes all that wait for it, in either process.
void raise(std::atomic<std::uint32_t>& word);
// Returns when the word differs from `seen`, or after `limit`, or early.
void await_raise(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit);

inline std::uint32_t number(RelaySlotState state) { return static_cast<std::uint32_t>(state); }
inline std::uint32_t number(RelayReader reader) { return static_cast<std::uint32_t>(reader); }
// Compare-and-swap of such a word; returns whether it was `from`.
inline bool exchange(std::atomic<std::uint32_t>& word, std::uint32_t from, std::uint32_t to) {
  return word.compare_exchange_strong(from, to);
}

// Of an open source. Both workers of a node, and those of other nodes, must compute the same.
RelayIdentity identity_of(const struct stat& info);

// What this thread does before is seen by the other process before what it does after, in the spool
// and on the board. (Not atomic_thread_fence(): GCC does not build that with ThreadSanitizer.)
inline void full_fence() { __sync_synchronize(); }

// Where the ring of a slot has its bytes. ring_bytes: a multiple of 1 MiB, not 0.
std::uint64_t ring_bytes(std::uint64_t window, std::uint32_t lanes);
// How far beyond its fastest reader a ring is filled: far enough for what readers have in flight,
// and no further, so that the beginning is there for a long time for nodes that come late.
std::uint64_t ring_ahead(std::uint64_t ring);
inline std::uint64_t spool_offset(std::size_t slot, std::uint64_t ring, std::uint64_t offset) {
  return slot * ring + offset % ring;
}

}  // namespace nodestage
