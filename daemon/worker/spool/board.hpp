// Board: the RelayBoard (common/wire/relay_board.hpp), mapped into this process.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "common/result.hpp"
#include "common/wire/relay_board.hpp"

namespace nodestage {

class Board {
 public:
  // Maps `fd`, k_worker_board_fd, which is borrowed. Refuses a file of another size.
  static Result<Board> map(int fd);
  RelayBoard& operator*() const { return *board_; }
  RelayBoard* operator->() const { return board_.get(); }

 private:
  struct Unmap {
    void operator()(RelayBoard* board) const;
  };
  explicit Board(RelayBoard* board) : board_(board) {}
  std::unique_ptr<RelayBoard, Unmap> board_;
};

// A thread that waits for news looks by itself after so long.
inline constexpr std::chrono::milliseconds k_news_step{100};

// What a thread waits for, or is woken for: one bit or several.
inline constexpr std::uint32_t k_any_news = ~0U;
// Of the threads that wait for the bytes before an offset: those that wait for an end in
// (from, to], and some others. Who waits for any news is woken by each of them.
std::uint32_t news_of(std::uint64_t from, std::uint64_t to);
// Of a thread that waits for all bytes before `end`.
std::uint32_t news_at(std::uint64_t end);

// Raises the word by one and wakes all that wait for it, in either process, for one of `bits`.
void raise(std::atomic<std::uint32_t>& word, std::uint32_t bits = k_any_news);
// Waits until the word differs from `seen`, at most for `limit`. May return early. Does not return
// for a raise for other bits.
void await_raise(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit, std::uint32_t bits = k_any_news);

// What a word of a slot has for a RelaySlotState, a RelayReader, and the like.
template <typename Enum>
std::uint32_t number(Enum value) {
  return static_cast<std::uint32_t>(value);
}
// Changes such a word to `to` if it is `from`; returns whether it was.
inline bool exchange(std::atomic<std::uint32_t>& word, std::uint32_t from, std::uint32_t to) {
  return word.compare_exchange_strong(from, to);
}

// Empties a slot that only the caller uses, except for its state and its reader.
void clear(RelaySlot& slot);

// Returns the identity of an open source, which all workers of all nodes compute alike.
RelayIdentity identity_of(const struct stat& info);
// The same for a directory, of which `wanted` is a fingerprint (relay_board.hpp).
RelayIdentity directory_identity_of(const struct stat& info, std::uint64_t wanted);

// Makes the other process see what this thread did before it sees what it does after. (Not
// atomic_thread_fence(): GCC does not build that with ThreadSanitizer.)
inline void full_fence() { __sync_synchronize(); }

// Returns the bytes of a slot's ring: a multiple of 1 MiB, not 0.
std::uint64_t ring_bytes(std::uint64_t window, std::uint32_t lanes);
// Returns how far beyond its fastest reader a ring is filled: far enough for what readers have in
// flight, and no further, so that the beginning is there for a long time for nodes that come late.
std::uint64_t ring_ahead(std::uint64_t ring);
inline std::uint64_t spool_offset(std::size_t slot, std::uint64_t ring, std::uint64_t offset) {
  return slot * ring + offset % ring;
}

// Silence: for how long another process has said nothing.
//
// Time in which this process itself did not run counts little: on a machine that was paused as a
// whole, no process could speak.

// For one thread.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Silence(std::chrono::milliseconds limit) : limit_(limit) {}

  void heard() {
    time_ = {};
    go_on();
  }
  // Excludes the time since the last call, in which the caller did not listen.
  void go_on() { looked_ = Clock::now(); }
  // Returns whether the limit has passed. Call it several times a second while you listen.
  bool is_too_long() {
    const auto now = Clock::now();
    time_ += std::min<Clock::duration>(now - looked_, k_most_at_once);
    looked_ = now;
    return time_ >= limit_;
  }

 private:
  static constexpr std::chrono::milliseconds k_most_at_once{500};
  std::chrono::milliseconds limit_;
  Clock::duration time_{};
  Clock::time_point looked_ = Clock::now();
};

}  // namespace nodestage
