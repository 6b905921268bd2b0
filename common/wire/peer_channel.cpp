#include "common/wire/peer_channel.hpp"

#include "common/wire/wire_fields.hpp"
#include "common/wire/wire_variant.hpp"

namespace nodestage {
namespace {

// The fields of each message, in their order on the wire.
auto fields_of(Is<PeerSettings> auto& m) {
  return std::tie(m.port, m.io_wait_s, m.max_connections, m.addresses);
}
auto fields_of(Is<PeerDeliver> auto& m) { return std::tie(m.id, m.node, m.credential); }
auto fields_of(Is<PeerListening> auto& m) { return std::tie(m.fault); }
auto fields_of(Is<PeerDelivered> auto& m) { return std::tie(m.id, m.fault); }
auto fields_of(Is<PeerReceived> auto& m) { return std::tie(m.payload, m.address); }
auto fields_of(Is<PeerDropped> auto& m) { return std::tie(m.address, m.why); }

}  // namespace

std::string encode_peer_message(const PeerMessage& message) {
  WireEncoder out;
  out.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&out](const auto& m) { put_fields(out, fields_of(m)); }, message);
  return out.data();
}

Result<PeerMessage> decode_peer_message(std::string_view packet) {
  WireDecoder in(packet);
  const std::size_t kind = in.u8();
  return decode_alternative<PeerMessage>(
      kind - 1, in, [](WireDecoder& d, auto& m) { get_fields(d, fields_of(m)); });
}

}  // namespace nodestage
