#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "common/wire/hkdf.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "hex.hpp"

using namespace nodestage;

namespace {

RelayKey some_key() {
  RelayKey key;
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  return key;
}

RelayNonces some_nonces() {
  RelayNonces nonces;
  nonces.client.fill(0xc0);
  nonces.server.fill(0x50);
  return nonces;
}

std::string proof_of(RelaySide side) {
  const auto proof = prove(some_key(), side, some_nonces());
  REQUIRE(proof);
  return hex_of(*proof);
}

std::string keys_of(RelaySide side) {
  const auto keys = derive_keys(some_key(), side, some_nonces());
  REQUIRE(keys);
  return hex_of(keys->key) + hex_of(keys->nonce);
}

}  // namespace

TEST_CASE("proofs and keys are what other releases make of the same key and nonces") {
  CHECK(proof_of(RelaySide::client) ==
        "e9f224f373efa9c5fca6850611e5ca337e80236d79a3343a9703310287eee8f2");
  CHECK(proof_of(RelaySide::server) ==
        "eab9f6cb29bd644ac22fbf1839cd2ebda970f21f52374327fb2151cec3441e9e");
  CHECK(keys_of(RelaySide::client) ==
        "157faa3efb84065a6d804555bb59c5a99d0e8c467eb4a75f8d054146a55e4ab9"
        "d479f9517964562ac49bfcd8");
  CHECK(keys_of(RelaySide::server) ==
        "71ae4da2804124770d569d7445c937591e8c6fd3e8ffaff67ff9ae4b5c585034"
        "48ca7b404e3a8a754dc39c6f");
}

TEST_CASE("HKDF as in the first example of RFC 5869") {
  const std::string secret(22, '\x0b');
  std::string salt(13, '\0');
  std::iota(salt.begin(), salt.end(), '\0');
  std::string info;
  for (int i = 0xf0; i <= 0xf9; ++i) info.push_back(static_cast<char>(i));
  std::vector<std::uint8_t> out(42);
  REQUIRE(hkdf_sha256(secret, salt, info, out));
  CHECK(hex_of(out) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
        "34007208d5b887185865");
}

TEST_CASE("no two nonces are the same") {
  const auto one = new_relay_nonce();
  const auto other = new_relay_nonce();
  REQUIRE((one && other));
  CHECK(*one != *other);
}
