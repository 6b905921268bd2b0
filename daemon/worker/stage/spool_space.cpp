#include "daemon/worker/stage/spool_space.hpp"

#include <algorithm>

#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/stage/admit_items.hpp"

namespace nodestage {
namespace {

constexpr char k_no_room[] = "the local disk has no room for that";

}  // namespace

SpoolSpace::SpoolSpace(RelayedSources* relays, Allowance& allowance, const std::atomic<bool>& stop)
    : relays_(relays),
      allowance_(allowance),
      stop_(stop),
      space_(k_worker_directory_fd, allowance) {}

Status SpoolSpace::admit(std::vector<StagedItem*>& items, std::size_t at_once) {
  using Size = RelayedSources::SpoolSize;
  const auto bytes_of = [this](Size size) {
    return relays_ != nullptr ? in_blocks(relays_->spool_bytes(size)) : 0;
  };
  const Spare spare{bytes_of(Size::whole), bytes_of(Size::least)};
  TRY_ASSIGN(claimed_, admit_items(items, spare, allowance_));
  if (relays_ == nullptr) return {};
  if (claimed_ == 0 && spare.wanted > 0) {
    relays_->refuse(k_no_room);
    return {};
  }
  relays_->begin(at_once, claimed_ < spare.wanted ? Size::least : Size::whole);
  if (claimed_ > 0) allowance_.set_spare([this] { return relays_->turn_off(k_no_room, stop_); });
  return {};
}

// Beyond the claim, the spool is what the data could take instead: it is not counted.
void SpoolSpace::count() {
  if (relays_ != nullptr) relays_->beat();
  if (claimed_ == 0) return;
  const std::uint64_t now = std::min(relays_->spool_taken(), claimed_);
  if (now <= counted_) return;
  const Amount grown{now - counted_, 0};
  counted_ = now;
  if (const Status taken = space_.take(grown); !taken) log_line(taken.error().text());
  space_.wrote(grown);
}

void SpoolSpace::end() {
  if (relays_ == nullptr) return;
  relays_->end();
  count();
  space_.settle({claimed_, 0});
  claimed_ = 0;
}

}  // namespace nodestage
