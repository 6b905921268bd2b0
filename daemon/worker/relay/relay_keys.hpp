// The secrets of one connection between two relay workers, from the key of their chain
// (RelayPlan::key) and a nonce of each side.
//
//   proof of a side     HMAC-SHA256(key, label of the side | client's nonce | server's nonce)
//   keys of a direction HKDF-SHA256(key, salt: both nonces, info: label of its sender), 44 bytes:
//                       32 of an AES-256-GCM key, then 12 of a first nonce
//
// HMAC: RFC 2104; HKDF: RFC 5869. Golden test: tests/unit/test_relay_keys.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/result.hpp"
#include "common/wire/relay_plan.hpp"

namespace nodestage {

using RelayKey = std::array<std::uint8_t, k_relay_key_bytes>;
using RelayNonce = std::array<std::uint8_t, 32>;
using RelayProof = std::array<std::uint8_t, 32>;

enum class RelaySide { client, server };  // the successor connects

struct RelayNonces {
  RelayNonce client{};
  RelayNonce server{};
};

struct DirectionKeys {
  std::array<std::uint8_t, 32> key{};
  std::array<std::uint8_t, 12> nonce{};
};

// Makes a nonce of the kernel's random bytes.
Result<RelayNonce> new_relay_nonce();

Result<RelayProof> prove(const RelayKey& key, RelaySide side, const RelayNonces& nonces);
// Compares in the same time whatever differs.
bool is_same(const RelayProof& one, const RelayProof& other);
Result<DirectionKeys> derive_keys(const RelayKey& key, RelaySide sender, const RelayNonces& nonces);

}  // namespace nodestage
