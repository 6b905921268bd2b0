#include "daemon/worker/relay/relay_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <string>

#include "common/wire/hkdf.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_client_proof = "nodestage relay 1 client proof";
constexpr std::string_view k_server_proof = "nodestage relay 1 server proof";
constexpr std::string_view k_client_keys = "nodestage relay 1 client keys";
constexpr std::string_view k_server_keys = "nodestage relay 1 server keys";

using Hash = std::array<std::uint8_t, 32>;

Result<Hash> hmac(std::span<const std::uint8_t> key, std::string_view data) {
  Hash hash{};
  unsigned size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, data.size(),
             hash.data(), &size) == nullptr ||
      size != hash.size())
    return Error{0, "HMAC-SHA256 is not available (OpenSSL)"};
  return hash;
}

template <typename Array>
std::string_view as_text(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string both(const RelayNonces& nonces) {
  return std::string(as_text(nonces.client)).append(as_text(nonces.server));
}

}  // namespace

Result<RelayNonce> new_relay_nonce() {
  RelayNonce nonce{};
  // So few bytes come at once or not at all.
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return system_error("getrandom");
  return nonce;
}

Result<RelayProof> prove(const RelayKey& key, RelaySide side, const RelayNonces& nonces) {
  std::string text(side == RelaySide::client ? k_client_proof : k_server_proof);
  return hmac(key, text += both(nonces));
}

bool is_same(const RelayProof& one, const RelayProof& other) {
  return ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

Result<DirectionKeys> derive_keys(const RelayKey& key, RelaySide sender,
                                  const RelayNonces& nonces) {
  std::array<std::uint8_t, 44> bytes{};
  TRY(hkdf_sha256(as_text(key), both(nonces),
                  sender == RelaySide::client ? k_client_keys : k_server_keys, bytes));
  DirectionKeys keys;
  std::copy_n(bytes.begin(), keys.key.size(), keys.key.begin());
  std::copy_n(bytes.begin() + 32, keys.nonce.size(), keys.nonce.begin());
  return keys;
}

}  // namespace nodestage
