#include "common/wire/peer_note.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "common/os/file.hpp"
#include "common/reflection.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

struct PlanRecord {
  std::uint32_t part;
  std::uint32_t port;
  std::uint8_t key[k_relay_key_bytes];
  char node[256];
  char address[64];
  char why[512];
};
static_assert(std::is_trivially_copyable_v<PlanRecord>);

}  // namespace

Status write_relay_plan(int fd, const RelayPlan& plan) {
  PlanRecord record{};
  record.part = static_cast<std::uint32_t>(plan.part);
  record.port = plan.port;
  std::copy(plan.key.begin(), plan.key.end(), record.key);
  set_field(record.node, plan.node);
  set_field(record.address, plan.address);
  set_field(record.why, plan.why);
  constexpr std::size_t k_body = offsetof(PlanRecord, port);
  constexpr const char* k_relay_plan = "relay plan";
  TRY(pwrite_all(fd, record_bytes(record).subspan(k_body), k_body, k_relay_plan));
  return pwrite_all(fd, record_bytes(record).first(k_body), 0, k_relay_plan);
}

Result<RelayPlan> read_relay_plan(int fd) {
  PlanRecord record{};
  const auto count = pread_all(fd, record_bytes(record), 0);
  if (!count) return system_error("relay plan", count.error().code);
  const auto part = to_enum<RelayPart>(record.part);
  RelayPlan plan;
  if (*count < sizeof record || !part || record.port > 0xffff) return plan;
  plan.part = *part;
  plan.port = static_cast<std::uint16_t>(record.port);
  std::copy(std::begin(record.key), std::end(record.key), plan.key.begin());
  plan.node = field_text(record.node);
  plan.address = field_text(record.address);
  plan.why = field_text(record.why);
  return plan;
}

namespace {

using Body = decltype(PeerNote::body);

// The fields of each body, in their order on the wire.
void fields_of(Is<NodeNote> auto& m, const auto& use) {
  use(m.state, m.waits, m.ended, m.bytes_read, m.bytes_total, m.cause);
}
void fields_of(Is<JobNote> auto& m, const auto& use) {
  use(m.verdict, m.text, m.facts.known, m.facts.array_job, m.facts.array_task, m.facts.job_name,
      m.facts.batch, m.outcome_known, m.status);
}
void fields_of(Is<RelayNote> auto& m, const auto& use) {
  use(m.word, m.port, m.node, m.address, m.node_port, m.key);
}
// The last field, only where it holds something: earlier releases refuse it. Null: there is none.
auto* rest_of(Is<NodeNote> auto& m) { return &m.chosen; }
auto* rest_of(Is<JobNote> auto& m) { return &m.cause; }
std::string* rest_of(const RelayNote&) { return nullptr; }

// The fields that precede the body of every note.
void head_of(Is<PeerNote> auto& note, const auto& use) {
  use(note.to, note.from, note.job, note.restart, note.sequence);
}

bool is_sound(const NodeNote& m) {
  return m.cause.size() <= k_max_note_text_bytes && m.chosen.size() <= k_max_note_text_bytes;
}
bool is_sound(const JobNote& m) {
  return m.text.size() <= k_max_note_text_bytes && m.cause.size() <= k_max_note_text_bytes &&
         m.facts.job_name.size() <= k_max_note_text_bytes;
}

bool is_sound(const RelayNote& m) {
  const bool is_answer = m.word == RelayWord::answer;
  return m.port <= 0xffff && m.node_port <= 0xffff && m.node.size() < 256 &&
         m.address.size() < 64 && m.key.size() == (is_answer ? k_relay_key_bytes : 0);
}

}  // namespace

std::string encode_peer_note(const PeerNote& note) {
  WireEncoder out;
  out.u8(k_peer_note_version);
  out.u8(static_cast<std::uint8_t>(note.body.index() + 1));
  head_of(note, PutFields{out});
  std::visit(
      [&out](const auto& m) {
        fields_of(m, PutFields{out});
        if (const std::string* rest = rest_of(m); rest != nullptr && !rest->empty())
          out.text(*rest);
      },
      note.body);
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
  head_of(note, GetFields{in});
  TRY_ASSIGN(note.body, decode_alternative<Body>(kind - 1, in, [](WireDecoder& d, auto& m) {
               fields_of(m, GetFields{d});
               std::string* rest = rest_of(m);
               if (rest != nullptr && d.ok() && !d.finished()) *rest = d.text();
             }));
  const bool sound = std::visit([](const auto& m) { return is_sound(m); }, note.body);
  if (!sound || note.to.size() > k_max_note_destinations) {
    return Error{EPROTO, "a note with a value that is not allowed"};
  }
  return note;
}

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
