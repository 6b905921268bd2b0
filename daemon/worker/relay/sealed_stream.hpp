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
//   or moved does not open. Proofs and keys: relay_keys.hpp.
//
// A stream is over with the frame that its users agree on (relay_message.hpp); one that ends
// without it was cut. Golden test: tests/unit/test_sealed_stream.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/relay/peer_socket.hpp"
#include "daemon/worker/relay/relay_keys.hpp"

struct evp_cipher_ctx_st;  // of <openssl/evp.h>

namespace nodestage {

inline constexpr std::size_t k_most_frame_bytes = 256 * 1024;

struct SealedFrame {
  std::uint8_t kind = 0;
  std::span<const std::byte> data;  // until the next call of receive()
};

// One direction's cipher.
class FrameCipher {
 public:
  static Result<FrameCipher> sealing(const DirectionKeys& keys);
  static Result<FrameCipher> opening(const DirectionKeys& keys);

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
  std::array<std::uint8_t, 12> next_nonce();

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

}  // namespace nodestage
