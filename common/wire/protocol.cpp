#include "common/wire/protocol.hpp"

#include <algorithm>
#include <array>

#include "common/reflection.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

struct Kind {
  std::uint8_t number;
  MessageRole role;
};

// Of each alternative of Message, in its order.
constexpr auto k_kinds = std::apply(
    [](const auto&... rows) {
      return std::array{Kind{rows.number, rows.role}...};
    },
    k_message_kinds);

// "10+1" for a component of the heterogeneous job 10: Slurm numbers them in sequence.
std::string component_name(std::uint32_t het_job, std::uint32_t job) {
  return std::to_string(het_job) + "+" + std::to_string(job - het_job);
}

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
  std::visit([&out](const auto& m) { with_members(m, PutFields{out}); }, message);
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
  const auto* const found = std::find_if(
      k_kinds.begin(), k_kinds.end(), [kind](const Kind& known) { return known.number == kind; });
  auto message =
      decode_alternative<Message>(static_cast<std::size_t>(found - k_kinds.begin()), in,
                                  [](WireDecoder& d, auto& m) { with_members(m, GetFields{d}); });
  if (!message) message.error().what += " (" + std::to_string(kind) + ")";
  return message;
}

std::string component_mark(std::uint32_t het_job, std::uint32_t job) {
  return " (" + component_name(het_job, job) + ")";
}

std::string job_name(std::uint32_t job, std::uint32_t array_job, std::uint32_t array_task,
                     std::uint32_t het_job) {
  if (het_job != k_no_number) return "job " + component_name(het_job, job);
  if (array_job == k_no_number) return "job " + std::to_string(job);
  return "job " + std::to_string(array_job) + "_" + std::to_string(array_task);
}

}  // namespace nodestage
