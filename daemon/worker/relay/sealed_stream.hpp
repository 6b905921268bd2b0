// SealedStream: frames between two relay workers that have proved to each other that they know the
// key of their chain. Until then, nothing else is read or sent.
//
//   client → server   8 bytes "nsrelay1", 32 bytes nonce
//   server → client   32 bytes nonce, 32 bytes proof of the server
//   client → server   32 bytes proof of the client
//   then, in both directions, frames:
//     u32 length (little-endian, at most k_most_frame_bytes), u8 kind,
//     `length` bytes sealed by AES-256-GCM, 16 bytes tag
//   The first five bytes are authenticated with the frame. Frame n (from 0) has the nonce of its
//   direction, whose last eight bytes are xored with n (big-endian): a frame that is lost, repeated
//   or moved does not open. Proofs and keys: RelayKeys.
//
// A stream is over with the frame that its users agree on; one that ends without it was cut. Golden
// test: tests/unit/test_sealed_stream.cpp.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/worker/relay/relay_basis.hpp"

struct evp_cipher_ctx_st;  // of <openssl/evp.h>

namespace nodestage {

// The secrets of one connection between two relay workers, from the key of their chain
// (RelayPlan::key) and a nonce of each side.
//
//   proof of a side     HMAC-SHA256(key, label of the side | client's nonce | server's nonce)
//   keys of a direction HKDF-SHA256(key, salt: both nonces, info: label of its sender), 44 bytes:
//                       32 of an AES-256-GCM key, then 12 of a first nonce
//
// HMAC: RFC 2104; HKDF: RFC 5869. Golden test: tests/unit/test_sealed_stream.cpp.
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

inline constexpr std::size_t k_most_frame_bytes = 256 * 1024;

struct SealedFrame {
  std::uint8_t kind = 0;
  std::span<const std::byte> data;  // until the next call of receive()
};

// One direction's cipher.
class FrameCipher {
 public:
  static Result<FrameCipher> sealing(const DirectionKeys& keys) { return make(keys, 1); }
  static Result<FrameCipher> opening(const DirectionKeys& keys) { return make(keys, 0); }

  // `header` is authenticated. `out`: as many bytes as `data`; may be the same memory.
  Status seal(std::span<const std::byte> header, std::span<const std::byte> data,
              std::span<std::byte> out, std::span<std::byte, 16> tag);
  // Fails if anything was changed.
  Status open(std::span<const std::byte> header, std::span<std::byte> data,
              std::span<std::byte, 16> tag);

 private:
  struct Release {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, Release>;
  FrameCipher(Context context, const DirectionKeys& keys)
      : context_(std::move(context)), first_nonce_(keys.nonce) {}
  static Result<FrameCipher> make(const DirectionKeys& keys, int encrypts);
  std::array<std::uint8_t, 12> next_nonce();
  // Begins the next frame, and puts what becomes of `data` into `out`.
  Status pass(std::span<const std::byte> header, std::span<const std::byte> data,
              std::span<std::byte> out);

  Context context_;
  std::array<std::uint8_t, 12> first_nonce_;
  std::uint64_t frames_ = 0;
};

// For one thread. A fault makes the stream useless.
class SealedStream {
 public:
  // Makes the handshake, at most until `until`. A fault says what the other side did.
  static Result<SealedStream> meet(PeerSocket socket, RelaySide own, const RelayKey& key,
                                   RelayClock::time_point until);

  // Sends one frame; `is_on` is that of PeerSocket::write().
  Status send(std::uint8_t kind, std::span<const std::byte> data,
              const std::function<Status()>& is_on);

  // Waits for the next frame; nullopt: it is not complete by `until`, and what has come is kept.
  Result<std::optional<SealedFrame>> receive(RelayClock::time_point until);

  void bound_buffers(std::uint64_t bytes) { socket_.bound_buffers(bytes); }
  void finish(RelayClock::time_point until) { socket_.finish(until); }

 private:
  SealedStream(PeerSocket socket, FrameCipher sealing, FrameCipher opening);
  Result<bool> fill(std::size_t bytes, RelayClock::time_point until);

  PeerSocket socket_;
  FrameCipher sealing_;
  FrameCipher opening_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;  // the frame that is coming
  std::size_t in_bytes_ = 0;   // of it, so far
};

// What relay workers say to each other, in the frames of a SealedStream. A connection is about one
// source, and its client, the successor, asks first.
//
//   kind 1  ask    client  u64 size, u64 mtime_ns, u64 ctime_ns, u64 offset, text path
//   kind 2  alive  both    empty: there is nothing to send, or nothing that can be taken now. Each
//                          side says something at least every second
//   kind 3  begin  server  empty: the source is there, or will be
//   kind 4  data   server  bytes of the source, in order, from `offset` on
//   kind 5  end    server  empty: that was all of the source
//   kind 6  leave  server  text why: go on without me
//   kind 7  ask_directory
//                  client  as `ask`, for a directory's stream: its size is the fingerprint of what
//                          is wanted of it (relay_board.hpp), and its offset 0
//   kind 8  alone  server  text why: read the source for yourself, as this node does, as must
//                          those behind you. It comes in place of `begin` (slot_feed.hpp), or
//                          later, for a directory that turns out to have no stream. Earlier
//                          releases take it for a fault, and read the source, too
//   fields as in common/wire/wire.hpp
// A data frame has at most k_most_frame_bytes. Anything else is a fault of the other side.
enum class RelayMessage : std::uint8_t {
  ask = 1,
  alive = 2,
  begin = 3,
  data = 4,
  end = 5,
  leave = 6,
  ask_directory = 7,
  alone = 8,
};
constexpr EnumRange<RelayMessage> range_of(RelayMessage) {
  return {RelayMessage::ask, RelayMessage::alone};
}

// How often a side that has nothing else to say says `alive`.
inline constexpr auto k_alive_step = std::chrono::milliseconds(300);

struct RelayAsk {
  std::string path;
  RelayIdentity identity{};
  std::uint64_t offset = 0;
  RelayKind kind = RelayKind::file;  // as the kind of the message has it
};

inline bool is_ask(RelayMessage message) {
  return message == RelayMessage::ask || message == RelayMessage::ask_directory;
}

std::string encode_ask(const RelayAsk& ask);
// Refuses a path that is not absolute, has a NUL, or does not fit into a slot, and an offset beyond
// the size.
Result<RelayAsk> decode_ask(std::span<const std::byte> data);

std::string encode_reason(const std::string& why);
std::string decode_reason(std::span<const std::byte> data);  // printable, and not long

}  // namespace nodestage
