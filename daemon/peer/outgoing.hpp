// Outgoing: the deliveries that the daemon ordered, at most k_max_deliveries at a time, in order.
// Each is answered by one PeerDelivered. One thread.
#pragma once

#include <deque>

#include "daemon/peer/channel.hpp"
#include "daemon/peer/delivery.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_deliveries = 256;

class Outgoing {
 public:
  Outgoing(const Delivery::Means& means, Channel& channel) : means_(means), channel_(channel) {}

  void deliver(PeerDeliver order);

 private:
  void start(PeerDeliver order);
  void released();

  Delivery::Means means_;
  Channel& channel_;
  std::deque<PeerDeliver> waiting_;
  std::size_t active_ = 0;
};

}  // namespace nodestage
