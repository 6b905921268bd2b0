// SlotTable: which source is in which slot of the board, and which reader may have one.
//
// Only the staging worker and this class move slots out of `unused`. A slot whose source is not
// needed is kept for nodes that come late, until a slot is wanted and none is free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/relay/slot_feed.hpp"

namespace nodestage {

// A successor's reader, with what it reads.
struct JoinedFeed {
  std::shared_ptr<SlotFeed> feed;
  std::unique_ptr<RingReader> reader;  // null: each node reads this source for itself
};

class SlotTable {
 public:
  explicit SlotTable(RelayBasis& basis) : basis_(basis) {}
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // Starts the feeds that the staging worker asks for, and takes slots back. The board's thread
  // calls it whenever `asks` was raised, and a few times a second.
  void tend();

  // Joins a successor to the source's feed, or starts it on behalf of the staging worker, which may
  // not have asked for it yet. nullopt: try again later. A fault is a refusal.
  Result<std::optional<JoinedFeed>> join(const RelayAsk& ask);

  // Asks all feeds to end.
  void stop();

 private:
  struct Entry {
    std::shared_ptr<SlotFeed> feed;
    bool is_retiring = false;
    std::uint64_t age = 0;  // grows from feed to feed
  };
  [[nodiscard]] std::size_t lanes();
  RelaySlot& slot(std::size_t i) { return basis_.board.slots[i]; }
  [[nodiscard]] bool is_in(std::size_t i, RelaySlotState state) {
    return slot(i).state == number(state);
  }
  [[nodiscard]] std::size_t count_in(RelaySlotState state);
  [[nodiscard]] bool is_staging_claiming();
  [[nodiscard]] bool has_feed_for(const RelayAsk& ask);
  bool take_ask(std::size_t i);
  void note_asks(int taken);
  void begin(std::size_t i, const RelayAsk& source);
  void release(std::size_t i);
  void free_one();
  [[nodiscard]] int worth(std::size_t i);
  bool claim(std::size_t i, const RelayAsk& ask);
  std::optional<JoinedFeed> join_feed(const RelayAsk& ask);
  std::optional<JoinedFeed> join_past(const RelayAsk& ask) const;

  RelayBasis& basis_;
  std::mutex mutex_;  // guards what follows
  std::array<Entry, k_relay_slots> entries_;
  std::size_t lanes_ = 0;  // 0: the staging worker has not said it yet
  std::uint64_t feeds_ = 0;
  std::uint32_t seen_asks_ = 0;
  int surplus_asks_ = 0;
  bool is_slot_wanted_ = false;
  // Feeds without a slot, of sources that each node reads for itself: for nodes that ask later.
  std::deque<std::shared_ptr<SlotFeed>> past_;
};

}  // namespace nodestage
