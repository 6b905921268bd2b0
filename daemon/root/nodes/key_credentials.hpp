// Credentials by a key of the cluster (cluster_keys.hpp): sealed so that only who holds the key can
// make or open one.
//
//   "NSK1" | key id, 8 bytes | salt, 32 random bytes | u64 time, ms since 1970 | payload,
//   AES-256-GCM | tag, 16 bytes
//
// Each credential has a key of its own, HMAC-SHA256(secret, salt), so its nonce is twelve zeros;
// all before the payload is authenticated with it. A credential counts for five minutes around its
// time, and once: what was opened is remembered for as long. What was made before this memory began
// is refused, and its node sends another one.
//
// AES-GCM: NIST SP 800-38D. Golden test: tests/unit/test_key_credentials.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.hpp"
#include "common/wire/peer_channel.hpp"
#include "daemon/root/nodes/cluster_keys.hpp"

namespace nodestage {

using CredentialSalt = std::array<std::uint8_t, 32>;

class KeyCredentials {
 public:
  // Times are in milliseconds since 1970.
  KeyCredentials(ClusterKeys keys, std::uint64_t now_ms)
      : keys_(std::move(keys)), begun_ms_(now_ms) {}

  [[nodiscard]] const std::string& source() const { return keys_.source; }
  [[nodiscard]] Result<std::string> make(std::string_view payload, std::uint64_t now_ms) const;
  // Returns the payload. Faults are for an administrator of the node that sent it.
  Result<std::string> open(std::string_view credential, std::uint64_t now_ms);

 private:
  Status admit(const CredentialSalt& salt, std::uint64_t made_ms, std::uint64_t now_ms);

  ClusterKeys keys_;
  std::uint64_t begun_ms_;
  std::set<std::pair<std::uint64_t, CredentialSalt>> opened_;  // by the time when each was made
};

}  // namespace nodestage
