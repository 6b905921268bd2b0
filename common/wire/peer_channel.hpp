// The channel between nodestaged and its child nodestage-peer: its messages and their format.
//
// nodestage-peer inherits one end of a SOCK_SEQPACKET socket pair as descriptor k_peer_channel_fd.
// Each packet is one message of at most k_max_channel_bytes. The daemon's first message is
// PeerSettings. When the daemon closes its end, nodestage-peer exits.
//
//   u8 kind (PeerMessage's alternatives, from 1) | the members of its struct, in their order, as in
//   common/wire/wire.hpp
//
// Between two peers, over TCP, one note per connection:
//   sender → receiver   "NSP1" | u32 length, little-endian, at most
//                       k_max_credential_bytes | credential
//   receiver → sender   one byte: 'A' accepted, 'R' refused; then both close
//
// A credential that begins with k_key_credential_magic is opened by the daemon's signer, which has
// the key. nodestage-peer inherits one end of another SOCK_SEQPACKET socket pair, k_signer_fd. The
// next nodestage-peer inherits the same one, and may find answers there that were not for it:
//   question   u64 id | text credential
//   answer     u64 id | u8 opened | text payload or, with `opened` 0, fault
//
// Golden test: tests/unit/test_peer_channel.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

inline constexpr int k_peer_channel_fd = 3;
inline constexpr int k_signer_fd = 4;
inline constexpr std::size_t k_max_channel_bytes = 128 * 1024;
inline constexpr std::size_t k_max_credential_bytes = 64 * 1024;
inline constexpr std::string_view k_peer_frame_magic = "NSP1";
inline constexpr std::string_view k_key_credential_magic = "NSK1";
inline constexpr char k_peer_taken = 'A';
inline constexpr char k_peer_refused = 'R';

struct PeerSettings {
  std::uint32_t port = 0;
  std::uint32_t io_wait_s = 5;           // limit for each connection as a whole
  std::uint32_t max_connections = 1024;  // incoming; beyond it, a silent one is dropped
  std::vector<std::string> addresses;    // "NODE=ADDRESS", one for each address of a node; the
                                         // system resolves other nodes
};

// Asks for the credential to be sent to the node's nodestage-peer. With an empty credential, the
// peer only connects, to see whether one listens there.
struct PeerDeliver {
  std::uint64_t id = 0;
  std::string node;
  std::string credential;
};

// The port is open (`fault` is empty), or cannot be opened and will be tried again. If the settings
// are wrong, `fault` says why, and nodestage-peer exits.
struct PeerListening {
  std::string fault;
};

struct PeerDelivered {
  std::uint64_t id = 0;
  std::string fault;  // empty: accepted (or, without a credential, connected)
};

// The payload of a credential that uid 0 made, from a connection whose address belongs to the host
// that the note names in `from`. The daemon checks everything else.
struct PeerReceived {
  std::string payload;
  std::string address;  // from which it came
};

// A connection without a usable note; for the log.
struct PeerDropped {
  std::string address;
  std::string why;
};

using PeerMessage = std::variant<PeerSettings, PeerDeliver, PeerListening, PeerDelivered,
                                 PeerReceived, PeerDropped>;

std::string encode_peer_message(const PeerMessage& message);
Result<PeerMessage> decode_peer_message(std::string_view packet);

}  // namespace nodestage
