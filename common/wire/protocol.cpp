#include "common/wire/protocol.hpp"

#include <algorithm>
#include <iterator>

#include "common/wire/wire_fields.hpp"
#include "common/wire/wire_variant.hpp"

namespace nodestage {
namespace {

// The fields of each message, in their order on the wire.
auto fields_of(Is<Begin> auto& m) {
  return std::tie(m.job, m.restart, m.uid, m.gid, m.user, m.node, m.node_count, m.node_index,
                  m.first_node, m.nodes, m.slurm_ways, m.cpus, m.work_dir, m.stdout_path,
                  m.request);
}
auto fields_of(Is<End> auto& m) { return std::tie(m.job, m.restart, m.exit_code, m.limit_s); }
auto fields_of(Is<Wait> auto& m) {
  return std::tie(m.job, m.step, m.speaks, m.goes_on, m.scope, m.interval_ms, m.array_job,
                  m.array_task, m.job_name);
}
auto fields_of(Is<Exited> auto& m) { return std::tie(m.job, m.step, m.wait_status); }
auto fields_of(Is<StatusQuery> auto& m) { return std::tie(m.job); }
auto fields_of(Is<HeldQuery> auto&) { return std::tie(); }
auto fields_of(Is<Recover> auto& m) { return std::tie(m.job, m.restart, m.directory); }
auto fields_of(Is<Await> auto& m) { return std::tie(m.job, m.interval_ms, m.names); }
auto fields_of(Is<ReportQuery> auto& m) { return std::tie(m.job); }
auto fields_of(Is<CacheQuery> auto&) { return std::tie(); }
auto fields_of(Is<CacheDrop> auto& m) { return std::tie(m.names); }
auto fields_of(Is<Push> auto& m) { return std::tie(m.job, m.interval_ms, m.waits, m.names); }
auto fields_of(Is<PlaceQuery> auto& m) { return std::tie(m.job, m.restart); }
auto fields_of(Is<Accepted> auto&) { return std::tie(); }
auto fields_of(Is<Refused> auto& m) { return std::tie(m.reason, m.what); }
auto fields_of(Is<Progress> auto& m) {
  return std::tie(m.phase, m.jobs_ahead, m.items_done, m.items, m.bytes_read, m.bytes_total,
                  m.bytes_written, m.files, m.elapsed_ms, m.current, m.directory, m.others);
}
auto fields_of(Is<Ready> auto& m) { return std::tie(m.environment, m.lines); }
auto fields_of(Is<Failed> auto& m) { return std::tie(m.cause, m.lines); }
auto fields_of(Is<Ended> auto& m) { return std::tie(m.outcome, m.what); }
auto fields_of(Is<StatusRow> auto& m) {
  return std::tie(m.job, m.restart, m.uid, m.user, m.node, m.state, m.begun_at, m.cause, m.others,
                  m.kept_in);
}
auto fields_of(Is<HeldRow> auto& m) {
  return std::tie(m.job, m.restart, m.uid, m.node, m.since, m.expires, m.next_try, m.is_measured,
                  m.bytes, m.inodes, m.path, m.reasons);
}
auto fields_of(Is<Recovered> auto& m) { return std::tie(m.lines); }
auto fields_of(Is<StatusItem> auto& m) {
  return std::tie(m.kind, m.state, m.flags, m.bytes_read, m.bytes_total, m.bytes_written, m.files,
                  m.elapsed_ms, m.name, m.what, m.source, m.destination, m.note);
}
auto fields_of(Is<ReportRow> auto& m) { return std::tie(m.report); }
auto fields_of(Is<CacheRow> auto& m) {
  return std::tie(m.name, m.uid, m.user, m.what, m.source, m.path, m.job, m.made_at, m.used_at,
                  m.bytes, m.files, m.source_bytes, m.hits, m.jobs, m.fault);
}
auto fields_of(Is<PlaceRow> auto& m) { return std::tie(m.root, m.directories, m.held, m.places); }

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
static_assert(std::size(k_kinds) == std::variant_size_v<Message>);

}  // namespace

MessageRole role_of(const Message& message) { return k_kinds[message.index()].role; }

std::string encode_message(const Message& message) {
  WireEncoder out;
  out.u8(k_protocol_version);
  out.u8(k_kinds[message.index()].number);
  std::visit([&out](const auto& m) { put_fields(out, fields_of(m)); }, message);
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
                                  [](WireDecoder& d, auto& m) { get_fields(d, fields_of(m)); });
  if (!message) message.error().what += " (" + std::to_string(kind) + ")";
  return message;
}

}  // namespace nodestage
