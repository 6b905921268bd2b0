#include "daemon/peer/outgoing.hpp"

namespace nodestage {

void Outgoing::deliver(PeerDeliver order) {
  if (active_ >= k_max_deliveries) return waiting_.push_back(std::move(order));
  start(std::move(order));
}

void Outgoing::start(PeerDeliver order) {
  ++active_;
  const std::uint64_t id = order.id;
  const auto delivery = std::make_shared<Delivery>(means_, std::move(order));
  delivery->start(
      [this, id](const std::string& fault) {
        channel_.say(PeerDelivered{id, fault});
      },
      [this] { released(); });
}

// From the loop, not here: a delivery that fails at once would start the next one within its end.
void Outgoing::released() {
  asio::post(means_.io, [this] {
    --active_;
    if (waiting_.empty()) return;
    PeerDeliver next = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(next));
  });
}

}  // namespace nodestage
