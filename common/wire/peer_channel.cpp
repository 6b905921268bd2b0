#include "common/wire/peer_channel.hpp"

#include "common/wire/wire.hpp"
#include "common/wire/wire_variant.hpp"

namespace nodestage {
namespace {

void put(WireEncoder& out, const PeerSettings& m) {
  out.u32(m.port), out.u32(m.io_wait_s), out.u32(m.max_connections), out.texts(m.addresses);
}
void get(WireDecoder& in, PeerSettings& m) {
  m.port = in.u32(), m.io_wait_s = in.u32(), m.max_connections = in.u32();
  m.addresses = in.texts();
}

void put(WireEncoder& out, const PeerDeliver& m) {
  out.u64(m.id), out.text(m.node), out.text(m.credential);
}
void get(WireDecoder& in, PeerDeliver& m) {
  m.id = in.u64(), m.node = in.text(), m.credential = in.text();
}

void put(WireEncoder& out, const PeerListening& m) { out.text(m.fault); }
void get(WireDecoder& in, PeerListening& m) { m.fault = in.text(); }

void put(WireEncoder& out, const PeerDelivered& m) { out.u64(m.id), out.text(m.fault); }
void get(WireDecoder& in, PeerDelivered& m) { m.id = in.u64(), m.fault = in.text(); }

void put(WireEncoder& out, const PeerReceived& m) { out.text(m.payload); }
void get(WireDecoder& in, PeerReceived& m) { m.payload = in.text(); }

void put(WireEncoder& out, const PeerDropped& m) { out.text(m.address), out.text(m.why); }
void get(WireDecoder& in, PeerDropped& m) { m.address = in.text(), m.why = in.text(); }

}  // namespace

std::string encode_peer_message(const PeerMessage& message) {
  WireEncoder out;
  out.u8(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&out](const auto& m) { put(out, m); }, message);
  return out.data();
}

Result<PeerMessage> decode_peer_message(std::string_view packet) {
  WireDecoder in(packet);
  const std::size_t kind = in.u8();
  return decode_alternative<PeerMessage>(kind - 1, in, [](WireDecoder& d, auto& m) { get(d, m); });
}

}  // namespace nodestage
