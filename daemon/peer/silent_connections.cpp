#include "daemon/peer/silent_connections.hpp"

namespace nodestage {

SilentConnections::Rank SilentConnections::rank_of(const Address& address, const OfAddress& all) {
  return {all.size(), all.begin()->first, address};
}

void SilentConnections::add(Number number, const Connection::Self& connection,
                            Clock::time_point now) {
  const Address& address = connection->source();
  OfAddress& all = of_[address];
  if (!all.empty()) ranks_.erase(rank_of(address, all));
  if (all.emplace(number, One{connection, now}).second) ++size_;
  ranks_.insert(rank_of(address, all));
}

void SilentConnections::remove(Number number, const Address& source) {
  const auto found = of_.find(source);
  if (found == of_.end() || !found->second.contains(number)) return;
  ranks_.erase(rank_of(source, found->second));
  found->second.erase(number);
  --size_;
  if (found->second.empty()) {
    of_.erase(found);
  } else {
    ranks_.insert(rank_of(source, found->second));
  }
}

SilentConnections::Silent SilentConnections::first_to_go() const {
  const Rank& rank = *ranks_.begin();
  const One& oldest = of_.at(rank.address).begin()->second;
  return {oldest.connection, oldest.since, rank.count};
}

}  // namespace nodestage
