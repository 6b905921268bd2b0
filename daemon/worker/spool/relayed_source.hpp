// RelayedSource: one source that the relay worker provides in a slot of the board: which bytes of
// it are read from the spool, which are waited for, and which are read from the original.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"

namespace nodestage {

// For any thread. It adds to the meter what the slot says the relay worker got from where.
//
// A read that lies far ahead of the others waits while they go on, and reads the original when they
// do not: the relay worker gets no further than ring_ahead() beyond the last of them.
class RelayedSource {
 public:
  // `sources` and `meter` are borrowed. Reading begins at `offset`.
  RelayedSource(const RelayContext& place, RelayedSources& sources, Meter& meter,
                std::uint64_t offset);
  RelayedSource(const RelayedSource&) = delete;
  RelayedSource& operator=(const RelayedSource&) = delete;
  ~RelayedSource() { static_cast<void>(close()); }

  // Returns how much of a read of `bytes` to pass to fetch() at once.
  [[nodiscard]] std::size_t part(std::size_t bytes) const { return std::min(bytes, part_); }
  [[nodiscard]] std::uint64_t size() const { return place_.size; }

  // Fills `into`, a part within the source, from the spool, or waits for it. Returns false if the
  // caller must read the original and then call read_original(). The fault is stopped(): the worker
  // stops, `given_up` was set, or the source was closed.
  Result<bool> fetch(std::uint64_t offset, std::span<std::byte> into,
                     const std::atomic<bool>& given_up);
  void read_original(std::uint64_t offset, std::size_t bytes);

  // Declares that nothing before `offset` will be read any more.
  void skip_to(std::uint64_t offset);

  // close() gives the slot back once no thread reads from it. fetch() fails from then on.
  struct Outcome {
    std::uint64_t from_nodes;
    std::string node;  // from which they came; "": it is not known
    std::string why;   // why anything was read from the original that should not be; "": nothing
  };
  Outcome close();

 private:
  using Clock = std::chrono::steady_clock;
  class Turn;
  enum class Choice { original, wait_near, wait_far };
  bool take(std::uint64_t offset, std::span<std::byte> into);
  [[nodiscard]] bool is_there(std::uint64_t offset, std::size_t bytes) const;
  bool read_ring(std::uint64_t offset, std::span<std::byte> into);
  Choice choose(std::uint64_t offset, std::size_t bytes, const std::string& ended);
  [[nodiscard]] std::string ended() const;
  [[nodiscard]] bool is_near(std::uint64_t end) const;
  void give_up(const std::string& why);
  void publish();
  void count();

  const RelayContext place_;
  RelayedSources& sources_;
  Meter& meter_;
  const std::size_t part_;
  std::atomic<bool> is_closed_ = false;

  std::mutex mutex_;  // over what follows
  std::condition_variable idle_;
  std::multiset<std::uint64_t> turns_;  // where threads read from the spool or wait
  std::size_t waiting_near_ = 0;
  std::uint64_t highest_;   // the end of what was read in order
  std::uint64_t position_;  // as in the slot
  Clock::time_point moved_ = Clock::now();
  std::string lost_;  // why nothing is waited for any more; "": it is
  std::string why_;   // of what was read from the original and should not have been
  std::string left_;  // why the relay read from the original, and not from the node before
  std::string node_;
  std::uint64_t from_storage_ = 0;  // as the slot had it
  std::uint64_t from_nodes_ = 0;
};

}  // namespace nodestage
