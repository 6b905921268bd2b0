// SpoolSpace: what the relay worker's spool takes of the local disk, as this worker's claim.
//
// The relay worker writes the spool and has no claim of its own. What it is expected to take is
// admitted with the data, and counts as written as far as the spool has grown. Where the data find
// no more room, the spool is given up for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// One thread. Everything is borrowed.
class SpoolSpace {
 public:
  // `relays`: null if nothing is relayed.
  SpoolSpace(RelayedSources* relays, Allowance& allowance, const std::atomic<bool>& stop);

  // admit_items(), and the spool with them, a smaller one if there is no room for all that it
  // could take. Without room for that, nothing is relayed.
  Status admit(std::vector<StagedItem*>& items, std::size_t at_once);

  // Call it several times a second. It also shows the relay worker that this worker lives.
  void count();

  // Nothing more is asked for: returns what the spool did not take.
  void end();

 private:
  RelayedSources* const relays_;
  Allowance& allowance_;
  const std::atomic<bool>& stop_;
  Space space_;
  std::uint64_t claimed_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace nodestage
