// Packets from anybody on the node or in the network: they are refused, or read as what they say.
// The first byte tells which reader.
#include "common/wire/node_report.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/worker_order.hpp"
#include "input.hpp"

using namespace nodestage;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view packet = text_of(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      if (const auto message = decode_message(packet)) require(encode_message(*message) == packet);
      break;
    case 1:
      // A flag may be any byte but 0, and is 1 from then on.
      if (const auto note = decode_peer_note(packet)) {
        const std::string once = encode_peer_note(*note);
        const auto again = decode_peer_note(once);
        require(again && encode_peer_note(*again) == once);
      }
      break;
    case 2:
      if (const auto order = decode_order(packet)) {
        const auto again = decode_order(encode_order(*order));
        require(static_cast<bool>(again));
      }
      break;
    case 3:
      if (const auto message = decode_peer_message(packet))
        require(encode_peer_message(*message) == packet);
      break;
    default:
      if (const auto report = decode_report(packet))
        require(static_cast<bool>(decode_report(encode_report(*report))));
  }
  return 0;
}
