#include "daemon/worker/relay/upstream.hpp"

#include <string>
#include <utility>

namespace nodestage {

Upstream::Upstream(SealedStream stream, const Limits& limits)
    : stream_(std::move(stream)), limits_(limits), silence_(limits.silence) {}

Result<Upstream> Upstream::ask(const RelayPlan& plan, const RelayAsk& ask, const Limits& limits) {
  const auto until = RelayClock::now() + limits.silence;
  TRY_ASSIGN(PeerSocket socket, PeerSocket::connect(plan.address, plan.port, until, limits.stop));
  if (limits.socket_bytes > 0) socket.bound_buffers(limits.socket_bytes);
  TRY_ASSIGN(SealedStream stream,
             SealedStream::meet(std::move(socket), RelaySide::client, plan.key, until));
  Upstream upstream(std::move(stream), limits);
  const std::string text = encode_ask(ask);
  const auto message =
      ask.kind == RelayKind::directory ? RelayMessage::ask_directory : RelayMessage::ask;
  TRY(upstream.send(message, std::as_bytes(std::span(text))));
  return upstream;
}

Status Upstream::send(RelayMessage message, std::span<const std::byte> data) {
  spoken_ = RelayClock::now();
  return stream_.send(static_cast<std::uint8_t>(message), data, [this] {
    return RelayClock::now() < spoken_ + limits_.silence
               ? Status()
               : Error{ETIMEDOUT, "the other side does not read"};
  });
}

Status Upstream::say_alive() {
  if (RelayClock::now() < spoken_ + k_alive_step) return {};
  return send(RelayMessage::alive, {});
}

Result<std::optional<Upstream::Word>> Upstream::next() {
  TRY(say_alive());
  silence_.go_on();
  TRY_ASSIGN(const auto frame, stream_.receive(RelayClock::now() + k_alive_step));
  if (!frame) {
    if (!silence_.is_too_long()) return std::optional<Word>();
    return Error{ETIMEDOUT, "the other side has said nothing for too long"};
  }
  silence_.heard();
  const auto message = to_enum<RelayMessage>(frame->kind);
  if (message == RelayMessage::alive) return std::optional<Word>();
  if (message == RelayMessage::leave) return Error{0, decode_reason(frame->data)};
  if (!message || is_ask(*message))
    return Error{EPROTO, "the other side says something that makes no sense"};
  return std::optional(Word{*message, frame->data});
}

}  // namespace nodestage
