#include "common/peer_channel.hpp"

#include "common/wire.hpp"
#include "common/wire_variant.hpp"

namespace nodestage {
namespace {

void put(Encoder& out, const PeerSettings& m) {
  out.u32(m.port), out.u32(m.io_wait_s), out.u32(m.max_connections), out.texts(m.addresses);
}
void get(Decoder& in, PeerSettings& m) {
  m.port = in.u32(), m.io_wait_s = in.u32(), m.max_connections = in.u32();
  m.addresses = in.texts();
}

void put(Encoder& out, const PeerDeliver& m) {
  out.u64(m.id), out.text(m.node), out.text(m.credential);
}
void get(Decoder& in, PeerDeliver& m) {
  m.id = in.u64(), m.node = in.text(), m.credential = in.text();
}

void put(Encoder& out, const PeerListening& m) { out.text(m.fault); }
void get(Decoder& in, PeerListening& m) { m.fault = in.text(); }

void put(Encoder& out, const PeerDelivered& m) { out.u64(m.id), out.text(m.fault); }
void get(Decoder& in, PeerDelivered& m) { m.id = in.u64(), m.fault = in.text(); }

void put(Encoder& out, const PeerReceived& m) { out.text(m.payload); }
void get(Decoder& in, PeerReceived& m) { m.payload = in.text(); }

void put(Encoder& out, const PeerDropped& m) { out.text(m.address), out.text(m.why); }
void get(Decoder& in, PeerDropped& m) { m.address = in.text(), m.why = in.text(); }

}  // namespace

std::string encode_peer_message(const PeerMessage& message) {
  Encoder out;
  out.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&out](const auto& m) { put(out, m); }, message);
  return out.data();
}

Result<PeerMessage> decode_peer_message(std::string_view packet) {
  Decoder in(packet);
  const std::size_t kind = in.u8();
  return decode_alternative<PeerMessage>(kind - 1, in, [](Decoder& d, auto& m) { get(d, m); });
}

}  // namespace nodestage
