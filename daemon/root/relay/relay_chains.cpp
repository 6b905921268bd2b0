#include "daemon/root/relay/relay_chains.hpp"

#include <sys/random.h>

#include "common/wire/relay_plan.hpp"

namespace nodestage {
namespace {

Result<std::string> make_key() {
  std::string key(k_relay_key_bytes, '\0');
  const ssize_t count = ::getrandom(key.data(), key.size(), 0);
  if (count != static_cast<ssize_t>(key.size())) return system_error("getrandom");
  return key;
}

}  // namespace

Result<ChainPlace> RelayChains::join(const RelayLink& link, std::uint64_t longest) {
  if (const auto known = joined_.find(link.node);
      known != joined_.end() && known->second.port == link.port)
    return known->second.place;
  const bool goes_on = last_ && last_->node != link.node && length_ < longest;
  if (!goes_on) {
    TRY_ASSIGN(key_, make_key());
    length_ = 0;
    last_.reset();
  }
  const ChainPlace place{key_, last_};
  joined_.insert_or_assign(link.node, Joined{link.port, place});
  if (link.port == 0) return place;
  ++length_;
  last_ = link;
  return place;
}

}  // namespace nodestage
