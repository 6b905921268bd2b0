#include "daemon/worker/relay/successor.hpp"

#include <string>
#include <thread>
#include <utility>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds k_ask_limit{5};
constexpr seconds k_finish_limit{5};
// While the source has no slot yet.
constexpr milliseconds k_join_step{10};
constexpr milliseconds k_slow_join_step{200};
constexpr int k_quick_joins = 200;

}  // namespace

Successor::Successor(RelayBasis& basis, SlotTable& table, SealedStream stream)
    : basis_(basis), table_(table), stream_(std::move(stream)), silence_(basis.silence()) {}

// What ends a wait for the successor: it is dropped, or gone without a word.
Status Successor::check() {
  if (basis_.stop) return stopped();
  if (reader_ != nullptr && reader_->is_dropped())
    return Error{ETIMEDOUT, "it has kept others waiting for too long"};
  return listen();
}

// Takes what the successor says, which can only be that it is alive.
Status Successor::listen() {
  for (;;) {
    TRY_ASSIGN(const auto frame, stream_.receive(RelayClock::now()));
    if (!frame) break;
    if (to_enum<RelayMessage>(frame->kind) != RelayMessage::alive)
      return Error{EPROTO, "it says something that makes no sense"};
    silence_.heard();
  }
  if (!silence_.is_too_long()) return {};
  return Error{ETIMEDOUT, "it has said nothing for too long"};
}

Status Successor::send(RelayMessage message, std::span<const std::byte> data) {
  spoken_ = RelayClock::now();
  return stream_.send(static_cast<std::uint8_t>(message), data, [this] { return check(); });
}

Status Successor::say_alive() {
  return RelayClock::now() < spoken_ + k_alive_step ? Status() : send(RelayMessage::alive, {});
}

Status Successor::send_last(RelayMessage message, const std::string& why) {
  reader_ = nullptr;
  const std::string text = encode_reason(why);
  TRY(send(message, std::as_bytes(std::span(text))));
  stream_.finish(RelayClock::now() + k_finish_limit);
  return {};
}

Status Successor::leave(const std::string& why) {
  TRY(send_last(RelayMessage::leave, why));
  return Error{0, why};
}

// Until it is known whether this source is relayed at all.
Status Successor::await_choice(const SlotFeed& feed) {
  for (;;) {
    const std::uint32_t seen = basis_.board.news;
    if (feed.choice() != RelayChoice::open || feed.has_ended()) return {};
    TRY(check());
    TRY(say_alive());
    await_raise(basis_.board.news, seen, k_alive_step);
  }
}

Result<RelayAsk> Successor::receive_ask() {
  TRY_ASSIGN(const auto frame, stream_.receive(RelayClock::now() + k_ask_limit));
  if (!frame) return Error{ETIMEDOUT, "it asks for nothing"};
  const auto message = to_enum<RelayMessage>(frame->kind);
  if (!message || !is_ask(*message)) return Error{EPROTO, "it does not ask"};
  silence_.heard();
  TRY_ASSIGN(RelayAsk ask, decode_ask(frame->data));
  if (message == RelayMessage::ask_directory) ask.kind = RelayKind::directory;
  return ask;
}

// Waits for the staging worker to say how many slots there are, and for a slot.
Result<JoinedFeed> Successor::join(const RelayAsk& ask) {
  const auto until =
      RelayClock::now() + basis_.patience() + seconds(basis_.order.relay.answer_wait_s);
  for (int tries = 0; RelayClock::now() < until; ++tries) {
    TRY(check());
    TRY_ASSIGN(auto joined, table_.join(ask));
    if (joined) return std::move(*joined);
    TRY(say_alive());
    std::this_thread::sleep_for(tries < k_quick_joins ? k_join_step : k_slow_join_step);
  }
  return Error{0, "it has no slot for it"};
}

Status Successor::send_more(RingReader& reader) {
  TRY_ASSIGN(const std::size_t bytes, reader.read(block_));
  TRY(send(RelayMessage::data, std::span(block_).first(bytes)));
  reader.advance(bytes);
  return check();
}

// A directory may turn out to have no stream only when some of it was sent.
Status Successor::leave_or_send_on(const SlotFeed& feed, const std::string& why) {
  if (feed.choice() == RelayChoice::alone) return send_last(RelayMessage::alone, feed.alone_why());
  return leave(why);
}

Status Successor::serve_from(const SlotFeed& feed, RingReader& reader) {
  for (;;) {
    switch (reader.await(RelayClock::now() + k_alive_step)) {
      case RingReader::State::nothing:
        TRY(check());
        TRY(say_alive());
        break;
      case RingReader::State::more:
        TRY(send_more(reader));
        break;
      case RingReader::State::end:
        TRY(send(RelayMessage::end, {}));
        stream_.finish(RelayClock::now() + k_finish_limit);
        return {};
      case RingReader::State::over:
        return leave_or_send_on(feed, reader.why());
      case RingReader::State::dropped:
        return leave("it has kept others waiting for too long");
    }
  }
}

Status Successor::serve() {
  TRY_ASSIGN(const RelayAsk ask, receive_ask());
  auto joined = join(ask);
  if (!joined) {
    if (is_stopped(joined.error())) return std::move(joined.error());
    return leave(joined.error().what);
  }
  reader_ = joined->reader.get();
  TRY(await_choice(*joined->feed));
  if (joined->feed->choice() == RelayChoice::alone)
    return send_last(RelayMessage::alone, joined->feed->alone_why());
  const std::uint64_t ring = joined->feed->ring().bytes();
  if (const auto bytes = socket_bytes_for(ring); bytes > 0) stream_.bound_buffers(bytes);
  block_.resize(frame_bytes_for(ring));
  TRY(send(RelayMessage::begin, {}));
  Status served = serve_from(*joined->feed, *joined->reader);
  // Who has all of it need not wait for the last word.
  return joined->reader->has_all() ? Status() : std::move(served);
}

}  // namespace nodestage
