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
  all.emplace(number, One{connection, now});
  sources_.emplace(number, address);
  ranks_.insert(rank_of(address, all));
}

void SilentConnections::remove(Number number, const Address& source) {
  const auto found = of_.find(source);
  if (found == of_.end() || !found->second.contains(number)) return;
  ranks_.erase(rank_of(source, found->second));
  found->second.erase(number);
  sources_.erase(number);
  if (found->second.empty()) {
    of_.erase(found);
  } else {
    ranks_.insert(rank_of(source, found->second));
  }
}

SilentConnections::Silent SilentConnections::first_to_go(std::size_t share) const {
  const bool is_beyond = ranks_.begin()->count > share;
  const OfAddress& all = of_.at(is_beyond ? ranks_.begin()->address : sources_.begin()->second);
  const One& oldest = all.begin()->second;
  return {oldest.connection, oldest.since, all.size()};
}

}  // namespace nodestage
