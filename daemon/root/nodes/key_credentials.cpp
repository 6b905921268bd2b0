#include "daemon/root/nodes/key_credentials.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/slurm/slurm_text.hpp"
#include "common/text/encodings.hpp"
#include "common/wire/hkdf.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_key_bytes = 1 << 20;
constexpr std::chrono::seconds k_read_wait{10};
constexpr std::size_t k_least_key_bytes = 16;  // as Slurm demands of each in a list
constexpr std::string_view k_secret_label = "nodestage note key 1";
constexpr std::string_view k_id_label = "nodestage note key id 1";

Result<ClusterKey> derive(std::string_view key) {
  ClusterKey derived;
  TRY(hkdf_sha256(key, "", k_secret_label, derived.secret));
  TRY(hkdf_sha256(key, "", k_id_label, derived.id));
  return derived;
}

Error wrong_list(const std::string& path, const std::string& why) {
  return {EINVAL, path + " is not a list of keys as auth/slurm uses it: " + why};
}

Result<ClusterKeys> derive_list(const KeyFile& file) {
  const auto document = nlohmann::json::parse(file.bytes, nullptr, false);
  const auto list = document.is_object() ? document.find("keys") : document.end();
  if (list == document.end() || !list->is_array()) return wrong_list(file.path, "no \"keys\"");
  ClusterKeys found{file.path, {}};
  for (const auto& entry : *list) {
    const auto text = [&entry](const char* name) {
      const auto value = entry.is_object() ? entry.find(name) : entry.end();
      return value != entry.end() && value->is_string() ? value->template get<std::string>() : "";
    };
    const auto expires = entry.is_object() ? entry.find("exp") : entry.end();
    const auto bytes = from_base64url(text("k"));
    if (!bytes || bytes->size() < k_least_key_bytes)
      return wrong_list(file.path, "a key whose \"k\" is not base64url of 16 bytes or more");
    TRY_ASSIGN(ClusterKey key, derive(*bytes));
    if (expires != entry.end() && expires->is_number_unsigned())
      key.expires_s = expires->template get<std::uint64_t>();
    const bool makes = ::strcasecmp(text("use").c_str(), "default") == 0;
    found.keys.insert(makes ? found.keys.begin() : found.keys.end(), key);
  }
  if (found.keys.empty()) return wrong_list(file.path, "it is empty");
  return found;
}

bool uses_auth_slurm(const std::string& directory) {
  const auto type = setting_in_slurm_conf(directory + "/slurm.conf", "AuthType");
  return type && ::strcasecmp(type->c_str(), "auth/slurm") == 0;
}

struct Place {
  std::string path;
  bool is_list;
  bool is_slurms;
};

Result<KeyFile> read_key_file(const Place& place) {
  const std::string& path = place.path;
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is not a file"};
  if ((info.st_mode & S_IRWXO) != 0)
    return Error{EPERM, path + " is a key that every user can use or change",
                 "Make it its owner's alone: chmod 600 " + path};
  if (!place.is_slurms && (info.st_uid != 0 || (info.st_mode & S_IRWXG) != 0))
    return Error{EPERM, path + " is a key that others than root can use or change",
                 "Make it root's alone: chown root " + path + "; chmod 600 " + path};
  TRY_ASSIGN(std::string bytes, read_all(fd.get(), k_max_key_bytes));
  return KeyFile{path, std::move(bytes), place.is_list};
}

// The list goes before the single key, as in Slurm.
std::optional<Place> place_of_key(const KeyLocations& places) {
  if (!places.key_file.empty())
    return Place{places.key_file, places.key_file.ends_with(".jwks"), false};
  for (const std::string& directory : places.slurm_directories) {
    if (!uses_auth_slurm(directory)) continue;
    // A node without a configuration of its own has the key where others have both.
    for (const std::string& with_key : {directory, places.slurm_directories.front()}) {
      struct stat info {};
      if (::stat((with_key + "/slurm.jwks").c_str(), &info) == 0)
        return Place{with_key + "/slurm.jwks", true, true};
      if (::stat((with_key + "/slurm.key").c_str(), &info) == 0)
        return Place{with_key + "/slurm.key", false, true};
    }
    return Place{directory + "/slurm.key", false, true};
  }
  return {};
}

template <typename Array>
std::string_view as_text(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What the process that reads the key says:
//   text fault | text source, empty: there is no key | u32 keys | for each: text id, text secret,
//   u64 expires_s
std::string encode(const Result<std::optional<ClusterKeys>>& derived) {
  WireEncoder out;
  out.text(derived ? "" : derived.error().text());
  const ClusterKeys keys = derived && *derived ? **derived : ClusterKeys();
  out.text(keys.source), out.u32(static_cast<std::uint32_t>(keys.keys.size()));
  for (const ClusterKey& key : keys.keys) {
    out.text(as_text(key.id));
    out.text(as_text(key.secret));
    out.u64(key.expires_s);
  }
  return out.data();
}

template <typename Array>
bool take(WireDecoder& in, Array& to) {
  const std::string bytes = in.text();
  if (bytes.size() != to.size()) return false;
  std::copy(bytes.begin(), bytes.end(), to.begin());
  return true;
}

Result<std::optional<ClusterKeys>> decode(std::string_view answer) {
  WireDecoder in(answer);
  const std::string fault = in.text();
  if (!fault.empty()) return Error{EACCES, fault};
  ClusterKeys keys{in.text(), {}};
  for (std::uint32_t count = in.u32(); count > 0; --count) {
    ClusterKey key;
    if (!take(in, key.id) || !take(in, key.secret)) break;
    key.expires_s = in.u64();
    keys.keys.push_back(key);
  }
  if (!in.finished()) return Error{EPROTO, "the key of the cluster could not be read"};
  if (keys.source.empty()) return std::optional<ClusterKeys>();
  return std::optional<ClusterKeys>(std::move(keys));
}

}  // namespace

Result<std::optional<KeyFile>> find_key_file(const KeyLocations& places) {
  const auto place = place_of_key(places);
  if (!place) return std::optional<KeyFile>();
  TRY_ASSIGN(KeyFile file, read_key_file(*place));
  return std::optional<KeyFile>(std::move(file));
}

std::string key_file_mark(const KeyLocations& places) {
  const auto place = place_of_key(places);
  struct stat info {};
  if (!place || ::stat(place->path.c_str(), &info) != 0) return "";
  return place->path + " " + std::to_string(info.st_dev) + " " + std::to_string(info.st_ino) + " " +
         std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

Result<ClusterKeys> derive_cluster_keys(const KeyFile& file) {
  if (file.is_list) return derive_list(file);
  if (file.bytes.size() < k_least_key_bytes)
    return Error{EINVAL, file.path + " holds " + std::to_string(file.bytes.size()) +
                             " bytes: a key has at least " + std::to_string(k_least_key_bytes)};
  TRY_ASSIGN(const ClusterKey key, derive(file.bytes));
  return ClusterKeys{file.path, {key}};
}

Result<std::optional<ClusterKeys>> read_cluster_keys(const KeyLocations& places) {
  const auto answer = ask_apart(k_read_wait, [&places] {
    const auto derived = [&]() -> Result<std::optional<ClusterKeys>> {
      TRY_ASSIGN(const auto file, find_key_file(places));
      if (!file) return std::optional<ClusterKeys>();
      TRY_ASSIGN(ClusterKeys keys, derive_cluster_keys(*file));
      return std::optional<ClusterKeys>(std::move(keys));
    }();
    return encode(derived);
  });
  if (!answer) return Error{ETIMEDOUT, "the key of the cluster could not be read in time"};
  return decode(*answer);
}

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

enum class Direction { seal = 1, open = 0 };  // as EVP_CipherInit_ex counts them

// Begins with the head, which is authenticated and not encrypted.
Result<Cipher> begin_cipher(Direction direction, const KeySecret& secret,
                            const CredentialSalt& salt, std::string_view head) {
  std::array<unsigned char, 32> key{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), salt.data(), salt.size(),
             key.data(), &size) == nullptr)
    return no_cipher();
  Cipher cipher(::EVP_CIPHER_CTX_new(), ::EVP_CIPHER_CTX_free);
  int count = 0;
  const bool begun = cipher &&
                     ::EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(),
                                         k_nonce.data(), static_cast<int>(direction)) == 1 &&
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
  TRY_ASSIGN(const Cipher cipher, begin_cipher(Direction::seal, key.secret, salt, made));
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
             begin_cipher(Direction::open, key->secret, salt, credential.substr(0, k_head_bytes)));
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
