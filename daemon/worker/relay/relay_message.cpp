#include "daemon/worker/relay/relay_message.hpp"

#include <string_view>

#include "common/text/human.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_reason_bytes = 400;

std::string_view text_of(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace

std::string encode_ask(const RelayAsk& ask) {
  WireEncoder out;
  out.u64(ask.identity.size);
  out.u64(static_cast<std::uint64_t>(ask.identity.mtime_ns));
  out.u64(static_cast<std::uint64_t>(ask.identity.ctime_ns));
  out.u64(ask.offset);
  out.text(ask.path);
  return out.data();
}

Result<RelayAsk> decode_ask(std::span<const std::byte> data) {
  WireDecoder in(text_of(data));
  RelayAsk ask;
  ask.identity.size = in.u64();
  ask.identity.mtime_ns = static_cast<std::int64_t>(in.u64());
  ask.identity.ctime_ns = static_cast<std::int64_t>(in.u64());
  ask.offset = in.u64();
  ask.path = in.text();
  const bool is_path = ask.path.starts_with('/') && ask.path.size() < k_max_relay_path &&
                       ask.path.find('\0') == std::string::npos;
  if (!in.finished() || !is_path || ask.offset > ask.identity.size)
    return Error{EPROTO, "the other side asks for something that makes no sense"};
  return ask;
}

std::string encode_reason(const std::string& why) {
  WireEncoder out;
  out.text(shortened(why, k_most_reason_bytes));
  return out.data();
}

std::string decode_reason(std::span<const std::byte> data) {
  WireDecoder in(text_of(data));
  const std::string why = in.text();
  return in.finished() ? printable(shortened(why, k_most_reason_bytes)) : "no reason";
}

}  // namespace nodestage
