#include "common/wire/peer_channel.hpp"

#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

// The fields of each message, in their order on the wire.
void fields_of(Is<PeerSettings> auto& m, const auto& use) {
  use(m.port, m.io_wait_s, m.max_connections, m.addresses);
}
void fields_of(Is<PeerDeliver> auto& m, const auto& use) { use(m.id, m.node, m.credential); }
void fields_of(Is<PeerListening> auto& m, const auto& use) { use(m.fault); }
void fields_of(Is<PeerDelivered> auto& m, const auto& use) { use(m.id, m.fault); }
void fields_of(Is<PeerReceived> auto& m, const auto& use) { use(m.payload, m.address); }
void fields_of(Is<PeerDropped> auto& m, const auto& use) { use(m.address, m.why); }

}  // namespace

std::string encode_peer_message(const PeerMessage& message) {
  WireEncoder out;
  out.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&out](const auto& m) { fields_of(m, PutFields{out}); }, message);
  return out.data();
}

Result<PeerMessage> decode_peer_message(std::string_view packet) {
  WireDecoder in(packet);
  const std::size_t kind = in.u8();
  return decode_alternative<PeerMessage>(
      kind - 1, in, [](WireDecoder& d, auto& m) { fields_of(m, GetFields{d}); });
}

}  // namespace nodestage
