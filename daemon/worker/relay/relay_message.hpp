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
//                          those behind you. It comes in place of `begin` (relay_choice.hpp), or
//                          later, for a directory that turns out to have no stream. Earlier
//                          releases take it for a fault, and read the source, too
//   fields as in common/wire/wire.hpp
// A data frame has at most k_most_frame_bytes. Anything else is a fault of the other side.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/enum_range.hpp"
#include "common/result.hpp"
#include "common/wire/relay_board.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"

namespace nodestage {

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
