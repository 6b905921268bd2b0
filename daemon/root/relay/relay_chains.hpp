// RelayChains: decides on a job's first node from which node each other gets its data: from the one
// that joined last. Pure, but for the keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace nodestage {

// A node whose relay worker listens.
struct RelayLink {
  std::string node;
  std::string address;  // numeric; empty: the job's first node itself
  std::uint16_t port = 0;
};

struct ChainPlace {
  std::string key;                  // of the chain, k_relay_key_bytes
  std::optional<RelayLink> before;  // none: the node reads the original
};

class RelayChains {
 public:
  // Gives a place to a relay worker that has started. With port 0 it does not listen, so no node
  // gets anything from it. A node that joins again with the same port gets the same place; with
  // another one, it stages again. A chain has at most `longest` nodes. Fails if no key can be made.
  Result<ChainPlace> join(const RelayLink& link, std::uint64_t longest);
  [[nodiscard]] bool has(const std::string& node) const { return joined_.contains(node); }

 private:
  struct Joined {
    std::uint16_t port;
    ChainPlace place;
  };
  std::map<std::string, Joined> joined_;  // by node
  std::string key_;                       // of the chain that grows
  std::uint64_t length_ = 0;
  std::optional<RelayLink> last_;  // of that chain
};

}  // namespace nodestage
