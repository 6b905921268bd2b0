#include "common/wire/protocol.hpp"

#include <algorithm>
#include <iterator>

#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

// The fields of each message, in their order on the wire.
void fields_of(Is<Begin> auto& m, const auto& use) {
  use(m.job, m.restart, m.uid, m.gid, m.user, m.node, m.node_count, m.node_index, m.first_node,
      m.nodes, m.slurm_ways, m.cpus, m.work_dir, m.stdout_path, m.request);
}
void fields_of(Is<End> auto& m, const auto& use) { use(m.job, m.restart, m.exit_code, m.limit_s); }
void fields_of(Is<Wait> auto& m, const auto& use) {
  use(m.job, m.step, m.speaks, m.goes_on, m.scope, m.interval_ms, m.array_job, m.array_task,
      m.job_name);
}
void fields_of(Is<Exited> auto& m, const auto& use) { use(m.job, m.step, m.wait_status); }
void fields_of(Is<StatusQuery> auto& m, const auto& use) { use(m.job); }
void fields_of(Is<HeldQuery> auto&, const auto& use) { use(); }
void fields_of(Is<Recover> auto& m, const auto& use) { use(m.job, m.restart, m.directory); }
void fields_of(Is<Await> auto& m, const auto& use) { use(m.job, m.interval_ms, m.names); }
void fields_of(Is<ReportQuery> auto& m, const auto& use) { use(m.job); }
void fields_of(Is<CacheQuery> auto&, const auto& use) { use(); }
void fields_of(Is<CacheDrop> auto& m, const auto& use) { use(m.names); }
void fields_of(Is<Push> auto& m, const auto& use) { use(m.job, m.interval_ms, m.waits, m.names); }
void fields_of(Is<PlaceQuery> auto& m, const auto& use) { use(m.job, m.restart); }
void fields_of(Is<Accepted> auto&, const auto& use) { use(); }
void fields_of(Is<Refused> auto& m, const auto& use) { use(m.reason, m.what); }
void fields_of(Is<Progress> auto& m, const auto& use) {
  use(m.phase, m.jobs_ahead, m.items_done, m.items, m.bytes_read, m.bytes_total, m.bytes_written,
      m.files, m.elapsed_ms, m.current, m.directory, m.others);
}
void fields_of(Is<Ready> auto& m, const auto& use) { use(m.environment, m.lines); }
void fields_of(Is<Failed> auto& m, const auto& use) { use(m.cause, m.lines); }
void fields_of(Is<Ended> auto& m, const auto& use) { use(m.outcome, m.what); }
void fields_of(Is<StatusRow> auto& m, const auto& use) {
  use(m.job, m.restart, m.uid, m.user, m.node, m.state, m.begun_at, m.cause, m.others, m.kept_in);
}
void fields_of(Is<HeldRow> auto& m, const auto& use) {
  use(m.job, m.restart, m.uid, m.node, m.since, m.expires, m.next_try, m.is_measured, m.bytes,
      m.inodes, m.path, m.reasons);
}
void fields_of(Is<Recovered> auto& m, const auto& use) { use(m.lines); }
void fields_of(Is<StatusItem> auto& m, const auto& use) {
  use(m.kind, m.state, m.flags, m.bytes_read, m.bytes_total, m.bytes_written, m.files, m.elapsed_ms,
      m.name, m.what, m.source, m.destination, m.note);
}
void fields_of(Is<ReportRow> auto& m, const auto& use) { use(m.report); }
void fields_of(Is<CacheRow> auto& m, const auto& use) {
  use(m.name, m.uid, m.user, m.what, m.source, m.path, m.job, m.made_at, m.used_at, m.bytes,
      m.files, m.source_bytes, m.hits, m.jobs, m.fault);
}
void fields_of(Is<PlaceRow> auto& m, const auto& use) {
  use(m.root, m.directories, m.held, m.places);
}

struct Kind {
  std::uint8_t number;
  MessageRole role;
};
using enum MessageRole;

// clang-format off
// Of each alternative of Message, in its order.
constexpr Kind k_kinds[] = {
    {1,  request},     // Begin
    {2,  request},     // End
    {3,  request},     // Wait
    {4,  request},     // Exited
    {5,  request},     // StatusQuery
    {6,  request},     // HeldQuery
    {7,  request},     // Recover
    {8,  request},     // Await
    {9,  request},     // ReportQuery
    {10, request},     // CacheQuery
    {11, request},     // CacheDrop
    {12, request},     // Push
    {13, request},     // PlaceQuery
    {16, last},        // Accepted
    {17, last},        // Refused
    {18, part},        // Progress
    {19, last},        // Ready
    {20, last},        // Failed
    {21, last},        // Ended
    {22, part},        // StatusRow
    {23, part},        // HeldRow
    {24, last},        // Recovered
    {25, part},        // StatusItem
    {26, part},        // ReportRow
    {27, part},        // CacheRow
    {28, last},        // PlaceRow
};
// clang-format on
static_assert(std::size(k_kinds) == std::variant_size_v<MessageKinds>);

}  // namespace

Message::Message() = default;
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

MessageRole role_of(const Message& message) { return k_kinds[message.index()].role; }

std::string encode_message(const Message& message) {
  WireEncoder out;
  out.u8(k_protocol_version);
  out.u8(k_kinds[message.index()].number);
  std::visit([&out](const auto& m) { fields_of(m, PutFields{out}); }, message);
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
  const auto* const found =
      std::find_if(std::begin(k_kinds), std::end(k_kinds),
                   [kind](const Kind& known) { return known.number == kind; });
  auto message =
      decode_alternative<Message>(static_cast<std::size_t>(found - k_kinds), in,
                                  [](WireDecoder& d, auto& m) { fields_of(m, GetFields{d}); });
  if (!message) message.error().what += " (" + std::to_string(kind) + ")";
  return message;
}

}  // namespace nodestage
