// HKDF-SHA256 (RFC 5869) by OpenSSL, for the programs that make keys from a secret. They link
// libcrypto themselves: the plugin does not need it.
#pragma once

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// Fills `out`, at most 255 * 32 bytes. An empty salt counts as 32 zeros. The copy of the secret is
// erased.
inline Status hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info,
                          std::span<std::uint8_t> out) {
  const std::unique_ptr<EVP_KDF, void (*)(EVP_KDF*)> kdf(::EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                         ::EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, void (*)(EVP_KDF_CTX*)> context(::EVP_KDF_CTX_new(kdf.get()),
                                                                     ::EVP_KDF_CTX_free);
  std::string digest = "SHA256";
  std::string parts[] = {std::string(secret), std::string(salt), std::string(info)};
  auto& [secret_copy, salt_copy, info_copy] = parts;
  const auto octets = [](const char* name, std::string& text) {
    return ::OSSL_PARAM_construct_octet_string(name, text.data(), text.size());
  };
  const OSSL_PARAM settings[] = {
      ::OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      octets(OSSL_KDF_PARAM_KEY, secret_copy), octets(OSSL_KDF_PARAM_INFO, info_copy),
      salt.empty() ? ::OSSL_PARAM_construct_end() : octets(OSSL_KDF_PARAM_SALT, salt_copy),
      ::OSSL_PARAM_construct_end()};
  const bool done =
      context && ::EVP_KDF_derive(context.get(), out.data(), out.size(), settings) > 0;
  ::OPENSSL_cleanse(secret_copy.data(), secret_copy.size());
  return done ? Status() : Error{0, "HKDF-SHA256 is not available (OpenSSL)"};
}

}  // namespace nodestage
