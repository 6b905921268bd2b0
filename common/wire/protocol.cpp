#include "common/wire/protocol.hpp"

#include <algorithm>
#include <iterator>

#include "common/wire/wire.hpp"
#include "common/wire/wire_variant.hpp"

namespace nodestage {
namespace {

// One overload per direction and message keeps the two field lists side by side.
void put(WireEncoder& out, const Begin& m) {
  out.u32(m.job), out.u32(m.restart), out.u32(m.uid), out.u32(m.gid);
  out.text(m.user), out.text(m.node), out.u32(m.node_count), out.u32(m.node_index);
  out.text(m.first_node), out.texts(m.nodes), out.u8(m.at_allocation);
  out.u32(m.cpus), out.text(m.work_dir), out.text(m.stdout_path), out.text(m.request);
}
void get(WireDecoder& in, Begin& m) {
  m.job = in.u32(), m.restart = in.u32(), m.uid = in.u32(), m.gid = in.u32();
  m.user = in.text(), m.node = in.text(), m.node_count = in.u32(), m.node_index = in.u32();
  m.first_node = in.text(), m.nodes = in.texts(), m.at_allocation = in.u8();
  m.cpus = in.u32(), m.work_dir = in.text(), m.stdout_path = in.text();
  m.request = in.text();
}

void put(WireEncoder& out, const End& m) {
  out.u32(m.job), out.u32(m.restart), out.u32(m.exit_code), out.u32(m.limit_s);
}
void get(WireDecoder& in, End& m) {
  m.job = in.u32(), m.restart = in.u32(), m.exit_code = in.u32(), m.limit_s = in.u32();
}

void put(WireEncoder& out, const Wait& m) {
  out.u32(m.job), out.u32(m.step), out.u8(m.speaks), out.u8(m.goes_on);
  out.u8(static_cast<std::uint8_t>(m.scope)), out.u32(m.interval_ms);
  out.u32(m.array_job), out.u32(m.array_task), out.text(m.job_name);
}
void get(WireDecoder& in, Wait& m) {
  m.job = in.u32(), m.step = in.u32(), m.speaks = in.u8(), m.goes_on = in.u8();
  m.scope = static_cast<WaitScope>(in.u8()), m.interval_ms = in.u32();
  m.array_job = in.u32(), m.array_task = in.u32(), m.job_name = in.text();
}

void put(WireEncoder& out, const Exited& m) {
  out.u32(m.job), out.u32(m.step), out.u32(m.wait_status);
}
void get(WireDecoder& in, Exited& m) {
  m.job = in.u32(), m.step = in.u32(), m.wait_status = in.u32();
}

void put(WireEncoder& out, const StatusQuery& m) { out.u32(m.job); }
void get(WireDecoder& in, StatusQuery& m) { m.job = in.u32(); }

void put(WireEncoder&, const HeldQuery&) {}
void get(WireDecoder&, HeldQuery&) {}

void put(WireEncoder& out, const Recover& m) {
  out.u32(m.job), out.u32(m.restart), out.text(m.directory);
}
void get(WireDecoder& in, Recover& m) {
  m.job = in.u32(), m.restart = in.u32(), m.directory = in.text();
}

void put(WireEncoder& out, const Await& m) {
  out.u32(m.job), out.u32(m.interval_ms), out.texts(m.names);
}
void get(WireDecoder& in, Await& m) {
  m.job = in.u32(), m.interval_ms = in.u32(), m.names = in.texts();
}

void put(WireEncoder& out, const ReportQuery& m) { out.u32(m.job); }
void get(WireDecoder& in, ReportQuery& m) { m.job = in.u32(); }

void put(WireEncoder&, const Accepted&) {}
void get(WireDecoder&, Accepted&) {}

void put(WireEncoder& out, const Refused& m) {
  out.u8(static_cast<std::uint8_t>(m.reason)), out.text(m.what);
}
void get(WireDecoder& in, Refused& m) {
  m.reason = static_cast<RefusalReason>(in.u8()), m.what = in.text();
}

void put(WireEncoder& out, const Progress& m) {
  out.u8(static_cast<std::uint8_t>(m.phase)), out.u32(m.jobs_ahead);
  out.u32(m.items_done), out.u32(m.items), out.u64(m.bytes_read), out.u64(m.bytes_total);
  out.u64(m.bytes_written), out.u64(m.files), out.u64(m.elapsed_ms), out.text(m.current),
      out.text(m.directory), out.text(m.others);
}
void get(WireDecoder& in, Progress& m) {
  m.phase = static_cast<ProgressPhase>(in.u8()), m.jobs_ahead = in.u32();
  m.items_done = in.u32(), m.items = in.u32(), m.bytes_read = in.u64(), m.bytes_total = in.u64();
  m.bytes_written = in.u64(), m.files = in.u64(), m.elapsed_ms = in.u64(), m.current = in.text();
  m.directory = in.text(), m.others = in.text();
}

void put(WireEncoder& out, const Ready& m) { out.texts(m.environment), out.texts(m.lines); }
void get(WireDecoder& in, Ready& m) { m.environment = in.texts(), m.lines = in.texts(); }

void put(WireEncoder& out, const Failed& m) { out.text(m.cause), out.texts(m.lines); }
void get(WireDecoder& in, Failed& m) { m.cause = in.text(), m.lines = in.texts(); }

void put(WireEncoder& out, const Ended& m) {
  out.u8(static_cast<std::uint8_t>(m.outcome)), out.text(m.what);
}
void get(WireDecoder& in, Ended& m) {
  m.outcome = static_cast<EndOutcome>(in.u8()), m.what = in.text();
}

void put(WireEncoder& out, const StatusRow& m) {
  out.u32(m.job), out.u32(m.restart), out.u32(m.uid), out.text(m.user), out.text(m.node);
  out.text(m.state), out.u64(m.begun_at), out.text(m.cause), out.text(m.others);
  out.text(m.kept_in);
}
void get(WireDecoder& in, StatusRow& m) {
  m.job = in.u32(), m.restart = in.u32(), m.uid = in.u32(), m.user = in.text(), m.node = in.text();
  m.state = in.text(), m.begun_at = in.u64(), m.cause = in.text(), m.others = in.text();
  m.kept_in = in.text();
}

void put(WireEncoder& out, const HeldRow& m) {
  out.u32(m.job), out.u32(m.restart), out.u32(m.uid), out.text(m.node), out.u64(m.since);
  out.u64(m.expires), out.u64(m.next_try), out.u8(m.is_measured), out.u64(m.bytes);
  out.text(m.path), out.texts(m.reasons);
}
void get(WireDecoder& in, HeldRow& m) {
  m.job = in.u32(), m.restart = in.u32(), m.uid = in.u32(), m.node = in.text(), m.since = in.u64();
  m.expires = in.u64(), m.next_try = in.u64(), m.is_measured = in.u8(), m.bytes = in.u64();
  m.path = in.text(), m.reasons = in.texts();
}

void put(WireEncoder& out, const Recovered& m) { out.texts(m.lines); }
void get(WireDecoder& in, Recovered& m) { m.lines = in.texts(); }

void put(WireEncoder& out, const StatusItem& m) {
  out.u8(static_cast<std::uint8_t>(m.kind)), out.u32(static_cast<std::uint32_t>(m.state));
  out.u32(m.flags), out.u64(m.bytes_read), out.u64(m.bytes_total), out.u64(m.bytes_written);
  out.u64(m.files), out.u64(m.elapsed_ms), out.text(m.name), out.text(m.what);
  out.text(m.source), out.text(m.destination), out.text(m.note);
}
void get(WireDecoder& in, StatusItem& m) {
  m.kind = static_cast<ItemKind>(in.u8()), m.state = static_cast<ItemState>(in.u32());
  m.flags = in.u32(), m.bytes_read = in.u64(), m.bytes_total = in.u64();
  m.bytes_written = in.u64(), m.files = in.u64(), m.elapsed_ms = in.u64(), m.name = in.text();
  m.what = in.text(), m.source = in.text(), m.destination = in.text(), m.note = in.text();
}

void put(WireEncoder& out, const ReportRow& m) { out.text(m.report); }
void get(WireDecoder& in, ReportRow& m) { m.report = in.text(); }

// The kind of each alternative of Message, in its order.
constexpr std::uint8_t k_kinds[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  16,
                                    17, 18, 19, 20, 21, 22, 23, 24, 25, 26};
static_assert(std::size(k_kinds) == std::variant_size_v<Message>);

}  // namespace

std::string encode_message(const Message& message) {
  WireEncoder out;
  out.u8(k_protocol_version);
  out.u8(k_kinds[message.index()]);
  std::visit([&out](const auto& m) { put(out, m); }, message);
  return out.data();
}

Result<Message> decode_message(std::string_view packet) {
  WireDecoder in(packet);
  const std::uint8_t version = in.u8();
  const std::uint8_t kind = in.u8();
  if (!in.ok()) return Error{EPROTO, "a message without a header"};
  if (version != k_protocol_version) {
    return Error{EPROTO, "a message of protocol version " + std::to_string(version) +
                             ", but this side speaks " + std::to_string(k_protocol_version)};
  }
  const auto* const found = std::find(std::begin(k_kinds), std::end(k_kinds), kind);
  auto message = decode_alternative<Message>(static_cast<std::size_t>(found - k_kinds), in,
                                             [](WireDecoder& d, auto& m) { get(d, m); });
  if (!message) message.error().what += " (" + std::to_string(kind) + ")";
  return message;
}

}  // namespace nodestage
