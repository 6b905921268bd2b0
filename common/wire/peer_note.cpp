#include "common/wire/peer_note.hpp"

#include "common/wire/wire.hpp"
#include "common/wire/wire_variant.hpp"

namespace nodestage {
namespace {

using Body = decltype(PeerNote::body);

void put(WireEncoder& out, const NodeNote& m) {
  out.u8(static_cast<std::uint8_t>(m.state)), out.u8(m.waits), out.u8(m.ended);
  out.u64(m.bytes_read), out.u64(m.bytes_total), out.text(m.cause);
}
void get(WireDecoder& in, NodeNote& m) {
  m.state = static_cast<NodeState>(in.u8()), m.waits = in.u8(), m.ended = in.u8();
  m.bytes_read = in.u64(), m.bytes_total = in.u64(), m.cause = in.text();
}
bool is_sound(const NodeNote& m) {
  return m.state >= NodeState::begun && m.state <= NodeState::failed &&
         m.cause.size() <= k_max_note_text_bytes;
}

void put(WireEncoder& out, const JobNote& m) {
  out.u8(static_cast<std::uint8_t>(m.verdict)), out.text(m.text);
  out.u8(m.facts.known ? 1 : 0), out.u32(m.facts.array_job), out.u32(m.facts.array_task);
  out.text(m.facts.job_name), out.u8(m.facts.batch ? 1 : 0);
  out.u8(m.outcome_known ? 1 : 0), out.u8(m.status ? 1 : 0), out.u32(m.status.value_or(0));
}
void get(WireDecoder& in, JobNote& m) {
  m.verdict = static_cast<Verdict>(in.u8()), m.text = in.text();
  m.facts.known = in.u8() != 0, m.facts.array_job = in.u32(), m.facts.array_task = in.u32();
  m.facts.job_name = in.text(), m.facts.batch = in.u8() != 0;
  m.outcome_known = in.u8() != 0;
  const bool has_status = in.u8() != 0;
  const std::uint32_t status = in.u32();
  if (has_status) m.status = status;
}
bool is_sound(const JobNote& m) {
  return m.verdict >= Verdict::open && m.verdict <= Verdict::failed &&
         m.text.size() <= k_max_note_text_bytes && m.facts.job_name.size() <= k_max_note_text_bytes;
}

}  // namespace

std::string encode_peer_note(const PeerNote& note) {
  WireEncoder out;
  out.u8(k_peer_note_version);
  out.u8(static_cast<std::uint8_t>(note.body.index() + 1));
  out.texts(note.to), out.text(note.from), out.u32(note.job), out.u32(note.restart);
  out.u64(note.sequence);
  std::visit([&out](const auto& m) { put(out, m); }, note.body);
  return out.data();
}

Result<PeerNote> decode_peer_note(std::string_view data) {
  if (data.size() > k_max_note_bytes) return Error{EPROTO, "a note that is too long"};
  WireDecoder in(data);
  const std::uint8_t version = in.u8();
  const std::size_t kind = in.u8();
  if (in.ok() && version != k_peer_note_version) {
    return Error{EPROTO, "a note of version " + std::to_string(version) +
                             ", but this node speaks " + std::to_string(k_peer_note_version)};
  }
  PeerNote note;
  note.to = in.texts(), note.from = in.text(), note.job = in.u32(), note.restart = in.u32();
  note.sequence = in.u64();
  TRY_ASSIGN(note.body,
             decode_alternative<Body>(kind - 1, in, [](WireDecoder& d, auto& m) { get(d, m); }));
  const bool sound = std::visit([](const auto& m) { return is_sound(m); }, note.body);
  if (!sound || note.to.size() > k_max_note_destinations) {
    return Error{EPROTO, "a note with a value that is not allowed"};
  }
  return note;
}

}  // namespace nodestage
