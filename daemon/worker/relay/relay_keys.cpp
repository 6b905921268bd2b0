#include "daemon/worker/relay/relay_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <string>

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
  std::array<std::uint8_t, 64> salt{};
  std::copy(nonces.client.begin(), nonces.client.end(), salt.begin());
  std::copy(nonces.server.begin(), nonces.server.end(), salt.begin() + 32);
  TRY(hkdf(key, salt, sender == RelaySide::client ? k_client_keys : k_server_keys, bytes));
  DirectionKeys keys;
  std::copy_n(bytes.begin(), keys.key.size(), keys.key.begin());
  std::copy_n(bytes.begin() + 32, keys.nonce.size(), keys.nonce.begin());
  return keys;
}

Status hkdf(std::span<const std::uint8_t> key, std::span<const std::uint8_t> salt,
            std::string_view info, std::span<std::uint8_t> out) {
  TRY_ASSIGN(const Hash extracted,
             hmac(salt, {reinterpret_cast<const char*>(key.data()), key.size()}));
  std::string last;
  for (std::uint8_t block = 1; !out.empty(); ++block) {
    std::string text = last;
    text.append(info).push_back(static_cast<char>(block));
    TRY_ASSIGN(const Hash hash, hmac(extracted, text));
    const std::size_t bytes = std::min(out.size(), hash.size());
    std::copy_n(hash.begin(), bytes, out.begin());
    out = out.subspan(bytes);
    last = as_text(hash);
  }
  return {};
}

}  // namespace nodestage
