#include "common/wire/peer_channel.hpp"

#include "common/members.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {
std::string encode_peer_message(const PeerMessage& message) {
  WireEncoder out;
  out.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&out](const auto& m) { with_members(m, PutFields{out}); }, message);
  return out.data();
}

Result<PeerMessage> decode_peer_message(std::string_view packet) {
  WireDecoder in(packet);
  const std::size_t kind = in.u8();
  return decode_alternative<PeerMessage>(
      kind - 1, in, [](WireDecoder& d, auto& m) { with_members(m, GetFields{d}); });
}

}  // namespace nodestage
