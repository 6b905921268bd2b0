#include "daemon/worker/relay/sealed_stream.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/text/human.hpp"
#include "common/wire/hkdf.hpp"
#include "common/wire/wire.hpp"
#include "daemon/worker/basis/fault.hpp"

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

namespace {

constexpr std::string_view k_greeting = "nsrelay1";
constexpr std::size_t k_header_bytes = 5;
constexpr std::size_t k_tag_bytes = 16;

Error cipher_error() { return Error{0, "AES-256-GCM failed (OpenSSL)"}; }

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

template <typename Array>
std::span<const std::byte> bytes_of(const Array& array) {
  return std::as_bytes(std::span(array));
}

// Fills the whole of `into`, or fails.
Status read_all_of(PeerSocket& socket, std::span<std::byte> into, RelayClock::time_point until) {
  while (!into.empty()) {
    TRY_ASSIGN(const std::size_t count, socket.read(into, until));
    if (count == 0) return Error{ETIMEDOUT, "the other side does not answer"};
    into = into.subspan(count);
  }
  return {};
}

Status write_by(PeerSocket& socket, std::span<const std::byte> data, RelayClock::time_point until) {
  return socket.write(data, [until] {
    return RelayClock::now() < until ? Status() : Error{ETIMEDOUT, "the other side does not read"};
  });
}

Status check_proof(PeerSocket& socket, const RelayKey& key, RelaySide side,
                   const RelayNonces& nonces, RelayClock::time_point until) {
  RelayProof proof{};
  TRY(read_all_of(socket, std::as_writable_bytes(std::span(proof)), until));
  TRY_ASSIGN(const RelayProof expected, prove(key, side, nonces));
  if (is_same(proof, expected)) return {};
  return Error{EACCES, "the other side does not know the key of this job's relay"};
}

Status send_proof(PeerSocket& socket, const RelayKey& key, RelaySide side,
                  const RelayNonces& nonces, RelayClock::time_point until) {
  TRY_ASSIGN(const RelayProof proof, prove(key, side, nonces));
  return write_by(socket, bytes_of(proof), until);
}

Result<RelayNonces> meet_server(PeerSocket& socket, const RelayKey& key,
                                RelayClock::time_point until) {
  RelayNonces nonces;
  TRY_ASSIGN(nonces.client, new_relay_nonce());
  const std::string hello = std::string(k_greeting).append(as_text(nonces.client));
  TRY(write_by(socket, bytes_of(hello), until));
  TRY(read_all_of(socket, std::as_writable_bytes(std::span(nonces.server)), until));
  TRY(check_proof(socket, key, RelaySide::server, nonces, until));
  TRY(send_proof(socket, key, RelaySide::client, nonces, until));
  return nonces;
}

Result<RelayNonces> meet_client(PeerSocket& socket, const RelayKey& key,
                                RelayClock::time_point until) {
  RelayNonces nonces;
  std::array<char, k_greeting.size()> greeting{};
  TRY(read_all_of(socket, std::as_writable_bytes(std::span(greeting)), until));
  if (std::string_view(greeting.data(), greeting.size()) != k_greeting)
    return Error{EPROTO, "the other side is no relay of this release"};
  TRY(read_all_of(socket, std::as_writable_bytes(std::span(nonces.client)), until));
  TRY_ASSIGN(nonces.server, new_relay_nonce());
  TRY(write_by(socket, bytes_of(nonces.server), until));
  TRY(send_proof(socket, key, RelaySide::server, nonces, until));
  TRY(check_proof(socket, key, RelaySide::client, nonces, until));
  return nonces;
}

RelaySide other(RelaySide side) {
  return side == RelaySide::client ? RelaySide::server : RelaySide::client;
}

void put_header(std::span<std::byte> header, std::size_t bytes, std::uint8_t kind) {
  for (unsigned i = 0; i < 4; ++i) header[i] = static_cast<std::byte>(bytes >> (8 * i));
  header[4] = static_cast<std::byte>(kind);
}

}  // namespace

void FrameCipher::Release::operator()(evp_cipher_ctx_st* context) const {
  ::EVP_CIPHER_CTX_free(context);
}

Result<FrameCipher> FrameCipher::make(const DirectionKeys& keys, int encrypts) {
  Context context(::EVP_CIPHER_CTX_new());
  if (!context || ::EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, keys.key.data(),
                                      keys.nonce.data(), encrypts) != 1)
    return cipher_error();
  return FrameCipher(std::move(context), keys);
}

std::array<std::uint8_t, 12> FrameCipher::next_nonce() {
  auto nonce = first_nonce_;
  const std::uint64_t frame = frames_++;
  for (unsigned i = 0; i < 8; ++i) nonce[11 - i] ^= static_cast<std::uint8_t>(frame >> (8 * i));
  return nonce;
}

Status FrameCipher::pass(std::span<const std::byte> header, std::span<const std::byte> data,
                         std::span<std::byte> out) {
  EVP_CIPHER_CTX* const context = context_.get();
  int bytes = 0;
  const auto nonce = next_nonce();
  bool is_good = ::EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
                 ::EVP_CipherUpdate(context, nullptr, &bytes, raw(header.data()),
                                    static_cast<int>(header.size())) == 1;
  if (is_good && !data.empty())
    is_good = ::EVP_CipherUpdate(context, raw(out.data()), &bytes, raw(data.data()),
                                 static_cast<int>(data.size())) == 1;
  return is_good ? Status() : cipher_error();
}

Status FrameCipher::seal(std::span<const std::byte> header, std::span<const std::byte> data,
                         std::span<std::byte> out, std::span<std::byte, 16> tag) {
  TRY(pass(header, data, out));
  unsigned char rest[16];
  int bytes = 0;
  const bool is_good =
      ::EVP_CipherFinal_ex(context_.get(), rest, &bytes) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, k_tag_bytes, tag.data()) == 1;
  return is_good ? Status() : cipher_error();
}

Status FrameCipher::open(std::span<const std::byte> header, std::span<std::byte> data,
                         std::span<std::byte, 16> tag) {
  TRY(pass(header, data, data));
  unsigned char rest[16];
  int bytes = 0;
  if (::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, k_tag_bytes, tag.data()) == 1 &&
      ::EVP_CipherFinal_ex(context_.get(), rest, &bytes) == 1)
    return {};
  return Error{EBADMSG, "what came was changed on its way"};
}

SealedStream::SealedStream(PeerSocket socket, FrameCipher sealing, FrameCipher opening)
    : socket_(std::move(socket)), sealing_(std::move(sealing)), opening_(std::move(opening)) {}

Result<SealedStream> SealedStream::meet(PeerSocket socket, RelaySide own, const RelayKey& key,
                                        RelayClock::time_point until) {
  auto met =
      own == RelaySide::client ? meet_server(socket, key, until) : meet_client(socket, key, until);
  if (!met) return std::move(met.error());
  TRY_ASSIGN(const DirectionKeys out, derive_keys(key, own, *met));
  TRY_ASSIGN(const DirectionKeys in, derive_keys(key, other(own), *met));
  TRY_ASSIGN(FrameCipher sealing, FrameCipher::sealing(out));
  TRY_ASSIGN(FrameCipher opening, FrameCipher::opening(in));
  return SealedStream(std::move(socket), std::move(sealing), std::move(opening));
}

Status SealedStream::send(std::uint8_t kind, std::span<const std::byte> data,
                          const std::function<Status()>& is_on) {
  if (data.size() > k_most_frame_bytes) return Error{EMSGSIZE, "the frame is too large"};
  out_.resize(k_header_bytes + data.size() + k_tag_bytes);
  const std::span<std::byte> out(out_);
  const auto header = out.first(k_header_bytes);
  put_header(header, data.size(), kind);
  TRY(sealing_.seal(header, data, out.subspan(k_header_bytes, data.size()),
                    out.last<k_tag_bytes>()));
  return socket_.write(out, is_on);
}

// Returns whether so many bytes of the frame are there.
Result<bool> SealedStream::fill(std::size_t bytes, RelayClock::time_point until) {
  if (in_.size() < bytes) in_.resize(bytes);
  while (in_bytes_ < bytes) {
    TRY_ASSIGN(const std::size_t count,
               socket_.read(std::span(in_).subspan(in_bytes_, bytes - in_bytes_), until));
    if (count == 0) return false;
    in_bytes_ += count;
  }
  return true;
}

Result<std::optional<SealedFrame>> SealedStream::receive(RelayClock::time_point until) {
  TRY_ASSIGN(const bool has_header, fill(k_header_bytes, until));
  if (!has_header) return std::optional<SealedFrame>();
  const std::size_t length = little_endian(in_);
  if (length > k_most_frame_bytes)
    return Error{EPROTO, "the other side sends frames that are too large"};
  const std::size_t whole = k_header_bytes + length + k_tag_bytes;
  TRY_ASSIGN(const bool is_whole, fill(whole, until));
  if (!is_whole) return std::optional<SealedFrame>();
  in_bytes_ = 0;
  const auto frame = std::span(in_).first(whole);
  const auto data = frame.subspan(k_header_bytes, length);
  TRY(opening_.open(frame.first(k_header_bytes), data, frame.last<k_tag_bytes>()));
  return std::optional(SealedFrame{std::to_integer<std::uint8_t>(frame[4]), data});
}

namespace {

constexpr std::size_t k_most_reason_bytes = 400;

}  // namespace

std::string encode_ask(const RelayAsk& ask) {
  WireEncoder out;
  out.u64(ask.identity.size);
  out.u64(static_cast<std::uint64_t>(ask.identity.mtime_ns));
  out.u64(static_cast<std::uint64_t>(ask.identity.ctime_ns));
  out.u64(ask.offset);
  out.text(ask.path);
  return out.data();
}

Result<RelayAsk> decode_ask(std::span<const std::byte> data) {
  WireDecoder in(as_text(data));
  RelayAsk ask;
  ask.identity.size = in.u64();
  ask.identity.mtime_ns = static_cast<std::int64_t>(in.u64());
  ask.identity.ctime_ns = static_cast<std::int64_t>(in.u64());
  ask.offset = in.u64();
  ask.path = in.text();
  const bool is_path = ask.path.starts_with('/') && ask.path.size() < k_max_relay_path &&
                       ask.path.find('\0') == std::string::npos;
  if (!in.finished() || !is_path || ask.offset > ask.identity.size)
    return Error{EPROTO, "the other side asks for something that makes no sense"};
  return ask;
}

std::string encode_reason(const std::string& why) {
  WireEncoder out;
  out.text(shortened(why, k_most_reason_bytes));
  return out.data();
}

std::string decode_reason(std::span<const std::byte> data) {
  WireDecoder in(as_text(data));
  const std::string why = in.text();
  return in.finished() ? printable(shortened(why, k_most_reason_bytes)) : "no reason";
}

}  // namespace nodestage
