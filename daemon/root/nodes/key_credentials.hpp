// Credentials by a key of the cluster: sealed so that only who holds the key can
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
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/wire/peer_note.hpp"

namespace nodestage {

// The keys of the cluster with which credentials are made and opened where MUNGE does not do it:
// the file peer.key_file or, where Slurm itself uses auth/slurm, the key of that.
//
//   slurm.key   any bytes: one key
//   slurm.jwks  JSON {"keys": [{"kid": "...", "k": "base64url of the key", "use": "default",
//               "exp": seconds since 1970}, ...]}; the default key, else the first, makes
//               credentials, every key opens them. Slurm's "Authentication Plugins" describes both
//
// What a process keeps is derived (HKDF-SHA256, RFC 5869, as OpenSSL makes it): from that nobody
// can get back to Slurm's own key.
//
// Golden test: tests/unit/test_key_credentials.cpp.
using KeyId = std::array<std::uint8_t, 8>;
using KeySecret = std::array<std::uint8_t, 32>;

struct ClusterKey {
  KeyId id{};  // derived, too: the same for the same key, whatever its name is
  KeySecret secret{};
  std::uint64_t expires_s = 0;  // since 1970; 0: never
};

struct ClusterKeys {
  std::string source;            // the file
  std::vector<ClusterKey> keys;  // the first one that has not expired makes credentials
};

struct KeyFile {
  std::string path;
  std::string bytes;
  bool is_list = false;  // slurm.jwks
};

// Where keys may be: `key_file`, unless it is empty, else in the first of these directories whose
// slurm.conf says AuthType=auth/slurm.
struct KeyLocations {
  std::string key_file;
  std::vector<std::string> slurm_directories = {"/etc/slurm", "/run/slurm/conf"};
};

// Finds and reads the key's file, for which it needs the privilege. Returns nothing if Slurm uses
// another method. Refuses a file that it cannot read or that users can: Slurm's own as Slurm judges
// it (no rights but owner's and group's), key_file if it is not root's alone.
Result<std::optional<KeyFile>> find_key_file(const KeyLocations& places);

// Returns a text that changes when a key file is replaced. Needs no privilege.
std::string key_file_mark(const KeyLocations& places);

// Refuses bytes that hold no key, or one of fewer than 16 bytes.
Result<ClusterKeys> derive_cluster_keys(const KeyFile& file);

// Runs find_key_file() and derive_cluster_keys() in a process of its own, so that this one never
// has the key itself.
Result<std::optional<ClusterKeys>> read_cluster_keys(const KeyLocations& places);

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
