// SpoolRing: what the relay worker has of one source, in the ring of its slot
// (common/wire/relay_board.hpp): which readers it has, and how far it may be filled.
//
// The rule for filling. Nothing is overwritten that a reader needs: the staging worker, from a
// quarter of the ring before its position on; a successor, from what was not sent to it on. Nothing
// is read further ahead than ring_ahead() beyond the fastest reader. Without a reader nothing is
// filled.
//
// Which reader is dropped. A reader keeps others waiting while the ring is full because of it and
// another reader has nothing left to read. The times of that add up; after `patience` a successor
// is let go, the staging worker after half of that. So no reader is dropped for being the only one,
// or as slow as the others. In a directory's stream, from which a reader cannot go on alone, the
// time in which it keeps nobody waiting is taken off again: only one that keeps others waiting for
// more than half of the time is dropped.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "common/result.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"

namespace nodestage {

class RingReader;

// What is on its way to a successor counts as sent. Its socket and a frame hold less than a quarter
// of a ring, so that a successor with a full ring does not look as if it had nothing to read.
inline std::uint64_t frame_bytes_for(std::uint64_t ring) {
  return std::min<std::uint64_t>(k_most_frame_bytes, ring / 16);
}
// Returns the bound of a socket's buffers; 0: the kernel's choice.
inline std::uint64_t socket_bytes_for(std::uint64_t ring) {
  constexpr std::uint64_t k_large = 128ULL << 20;
  return ring < k_large ? ring / 32 : 0;
}

class SpoolRing {
 public:
  struct Place {
    RelayBoard& board;
    std::size_t slot;
    int spool_fd;        // borrowed
    std::uint64_t ring;  // bytes
    std::uint64_t size;  // of the source
    std::chrono::milliseconds patience;
    RelayClock::time_point (*now)() = RelayClock::now;
    RelayKind kind = RelayKind::file;       // directory: `size` is not known before the end
    std::function<void()> on_drop = [] {};  // called for each reader that is dropped
  };
  explicit SpoolRing(const Place& place);
  SpoolRing(const SpoolRing&) = delete;
  SpoolRing& operator=(const SpoolRing&) = delete;

  // Waits for room, and drops slow readers. Returns the bytes that may be written, 0 if there is no
  // room by `until`. For the one thread that fills the ring.
  std::uint64_t await_room(RelayClock::time_point until);
  // Appends as many bytes as await_room() allowed, or fewer.
  Status write(std::span<const std::byte> data);
  // For a ring that the staging worker fills: grant() waits for room as await_room() does, and
  // returns up to where it may write; advance() notes up to where it has.
  std::uint64_t grant(RelayClock::time_point until);
  void advance(std::uint64_t written);
  // A directory's stream is complete.
  void end();
  // Ends the filling; `why` is for the readers.
  void give_up(const std::string& why);
  [[nodiscard]] std::uint64_t watermark() const;
  [[nodiscard]] bool is_complete() const { return left() == 0; }
  // Returns how many bytes are still to come; many, if that is not known.
  [[nodiscard]] std::uint64_t left() const;

  // Adds a successor that reads from `offset` on; returns nullptr if that is gone. The ring must
  // outlive it.
  std::unique_ptr<RingReader> join(std::uint64_t offset);
  [[nodiscard]] std::size_t successors() const;
  [[nodiscard]] bool has_beginning() const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::uint64_t bytes() const { return place_.ring; }

 private:
  friend class RingReader;
  using Milliseconds = std::chrono::milliseconds;
  // For how long a reader has kept others waiting.
  struct Burden {
    bool is_on = false;  // at the last look
    RelayClock::duration time{};
  };
  struct Successor {
    std::uint64_t sent;
    Burden burden{};
    bool is_dropped = false;
  };
  using Successors = std::list<Successor>;
  struct Bounds {
    bool has_reader = false;
    std::uint64_t needed = UINT64_MAX;  // from here on
    std::uint64_t fastest = 0;
  };

  [[nodiscard]] RelaySlot& slot() const { return place_.board.slots[place_.slot]; }
  [[nodiscard]] bool has_local() const;
  [[nodiscard]] std::uint64_t local_position() const;
  [[nodiscard]] std::uint64_t local_needs() const;
  [[nodiscard]] Bounds bounds() const;
  [[nodiscard]] std::uint64_t room() const;
  [[nodiscard]] bool blocks(std::uint64_t needed) const;
  [[nodiscard]] bool is_any_starved() const;
  void drop_local();
  void drop_slow_readers();
  void set_burdens(bool is_full);
  void add_time();

  const Place place_;
  mutable std::mutex mutex_;  // guards what follows
  std::uint64_t low_ = 0;
  std::uint64_t watermark_ = 0;
  std::uint64_t size_;
  bool is_written_ = false;  // by the staging worker
  Successors successors_;
  Burden local_burden_;
  RelayClock::time_point looked_;
  std::optional<std::string> why_;  // it is over
};

// A successor's position in a ring. For one thread.
class RingReader {
 public:
  RingReader(SpoolRing& ring, SpoolRing::Successors::iterator successor)
      : ring_(ring), successor_(successor) {}
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader();

  enum class State {
    nothing,  // until then
    more,     // read() gives some
    end,      // the source ends here
    over,     // no more will come; why()
    dropped,  // it has kept others waiting
  };
  State await(RelayClock::time_point until);
  [[nodiscard]] bool is_dropped() const;
  [[nodiscard]] std::string why() const;
  // Returns whether everything has been sent.
  [[nodiscard]] bool has_all() const;

  // Reads what is there, at most `into`; returns how many bytes.
  Result<std::size_t> read(std::span<std::byte> into);
  // Notes that so many bytes more have been sent.
  void advance(std::size_t bytes);

 private:
  [[nodiscard]] State state() const;

  SpoolRing& ring_;
  SpoolRing::Successors::iterator successor_;
};

}  // namespace nodestage
