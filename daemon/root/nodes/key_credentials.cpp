#include "daemon/root/nodes/key_credentials.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_lifetime_ms = 300'000;  // as MUNGE's
constexpr std::size_t k_tag_bytes = 16;
constexpr std::size_t k_head_bytes =
    k_key_credential_magic.size() + sizeof(KeyId) + sizeof(CredentialSalt) + 8;
constexpr std::array<std::uint8_t, 12> k_nonce{};

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

Error no_cipher() { return {0, "AES-256-GCM failed (OpenSSL)"}; }

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* raw(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

template <typename Array>
std::string_view as_text(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes the next bytes of a head that is long enough.
template <typename Array>
Array take(std::string_view& from) {
  Array bytes{};
  std::memcpy(bytes.data(), from.data(), bytes.size());
  from.remove_prefix(bytes.size());
  return bytes;
}

bool has_expired(const ClusterKey& key, std::uint64_t now_ms) {
  return key.expires_s != 0 && key.expires_s <= now_ms / 1000;
}

enum class Way { seal = 1, open = 0 };  // as EVP_CipherInit_ex counts them

// Begins with the head, which is authenticated and not encrypted.
Result<Cipher> begin_cipher(Way way, const KeySecret& secret, const CredentialSalt& salt,
                            std::string_view head) {
  std::array<unsigned char, 32> key{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), salt.data(), salt.size(),
             key.data(), &size) == nullptr)
    return no_cipher();
  Cipher cipher(::EVP_CIPHER_CTX_new(), ::EVP_CIPHER_CTX_free);
  int count = 0;
  const bool begun = cipher &&
                     ::EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(),
                                         k_nonce.data(), static_cast<int>(way)) == 1 &&
                     ::EVP_CipherUpdate(cipher.get(), nullptr, &count, raw(head),
                                        static_cast<int>(head.size())) == 1;
  ::OPENSSL_cleanse(key.data(), key.size());
  if (!begun) return no_cipher();
  return cipher;
}

}  // namespace

Result<std::string> KeyCredentials::make(std::string_view payload, std::uint64_t now_ms) const {
  const auto found =
      std::find_if(keys_.keys.begin(), keys_.keys.end(),
                   [now_ms](const auto& known) { return !has_expired(known, now_ms); });
  if (found == keys_.keys.end())
    return Error{EKEYEXPIRED, "no key in " + keys_.source + " is valid any more"};
  const ClusterKey& key = *found;
  CredentialSalt salt{};
  // So few bytes come at once or not at all.
  if (::getrandom(salt.data(), salt.size(), 0) != static_cast<ssize_t>(salt.size()))
    return system_error("getrandom");
  WireEncoder time;
  time.u64(now_ms);
  std::string made(k_key_credential_magic);
  made.append(as_text(key.id)).append(as_text(salt)).append(time.data());
  TRY_ASSIGN(const Cipher cipher, begin_cipher(Way::seal, key.secret, salt, made));
  made.resize(k_head_bytes + payload.size() + k_tag_bytes);
  unsigned char* const to = raw(made) + k_head_bytes;
  int count = 0;
  int last = 0;
  const bool sealed = ::EVP_CipherUpdate(cipher.get(), to, &count, raw(payload),
                                         static_cast<int>(payload.size())) == 1 &&
                      ::EVP_CipherFinal_ex(cipher.get(), to + count, &last) == 1 &&
                      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, k_tag_bytes,
                                            to + payload.size()) == 1;
  if (!sealed) return no_cipher();
  return made;
}

Result<std::string> KeyCredentials::open(std::string_view credential, std::uint64_t now_ms) {
  if (credential.size() <= k_head_bytes + k_tag_bytes ||
      credential.size() > k_max_credential_bytes || !credential.starts_with(k_key_credential_magic))
    return Error{EPROTO, "what it sent is not a credential"};
  std::string_view rest = credential.substr(k_key_credential_magic.size());
  const auto id = take<KeyId>(rest);
  const auto salt = take<CredentialSalt>(rest);
  const std::uint64_t made_ms = WireDecoder(rest.substr(0, 8)).u64();
  rest.remove_prefix(8);
  const auto key = std::find_if(keys_.keys.begin(), keys_.keys.end(),
                                [&id](const ClusterKey& known) { return known.id == id; });
  if (key == keys_.keys.end())
    return Error{EACCES, "its credential was made with another key: is " + keys_.source +
                             " the same on all nodes, and was nodestaged reloaded after a change?"};
  if (has_expired(*key, now_ms))
    return Error{EKEYEXPIRED, "its credential was made with a key that has expired"};
  TRY_ASSIGN(const Cipher cipher,
             begin_cipher(Way::open, key->secret, salt, credential.substr(0, k_head_bytes)));
  std::string payload(rest.size() - k_tag_bytes, '\0');
  std::string tag(rest.substr(payload.size()));
  int count = 0;
  int last = 0;
  const bool opened =
      ::EVP_CipherUpdate(cipher.get(), raw(payload), &count, raw(rest),
                         static_cast<int>(payload.size())) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, k_tag_bytes, tag.data()) == 1 &&
      ::EVP_CipherFinal_ex(cipher.get(), raw(payload) + count, &last) == 1;
  if (!opened) return Error{EACCES, "its credential was altered"};
  TRY(admit(salt, made_ms, now_ms));
  return payload;
}

// Of a credential that is genuine.
Status KeyCredentials::admit(const CredentialSalt& salt, std::uint64_t made_ms,
                             std::uint64_t now_ms) {
  const std::string clocks = ": are the clocks of both nodes right?";
  const auto seconds = [](std::uint64_t ms) { return std::to_string(ms / 1000) + " s"; };
  if (now_ms > made_ms && now_ms - made_ms > k_lifetime_ms)
    return Error{EACCES, "its credential is " + seconds(now_ms - made_ms) + " old" + clocks};
  if (made_ms > now_ms && made_ms - now_ms > k_lifetime_ms)
    return Error{EACCES,
                 "its credential is of a time " + seconds(made_ms - now_ms) + " from now" + clocks};
  // This node's clock was ahead then, and was set back.
  begun_ms_ = std::min(begun_ms_, now_ms);
  if (made_ms < begun_ms_)
    return Error{EAGAIN,
                 "its credential is older than this node's memory of used ones, which has "
                 "just begun: its node sends another"};
  while (!opened_.empty() && now_ms > opened_.begin()->first &&
         now_ms - opened_.begin()->first > k_lifetime_ms)
    opened_.erase(opened_.begin());
  if (!opened_.emplace(made_ms, salt).second)
    return Error{EACCES, "its credential was used before"};
  return {};
}

}  // namespace nodestage
