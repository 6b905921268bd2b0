#include "daemon/worker/relay/slot_feed.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/task_crew.hpp"

namespace nodestage {
namespace {

// How long an upstream that was silent is left alone.
constexpr std::chrono::seconds k_rest_of_sources{60};

double rate_of(std::uint64_t bytes, const HeadLook& look) {
  const double elapsed = std::chrono::duration<double>(look.time).count();
  return static_cast<double>(bytes) / std::max(elapsed, 1e-9);
}

}  // namespace

std::uint64_t bytes_to_measure(std::uint64_t size, std::uint64_t ring) {
  const std::uint64_t part = std::clamp(size / 8, 8 * k_mebibyte, 64 * k_mebibyte);
  return std::min({part, size, ring / 4});
}

RelayChoice choose(const HeadLook& look, std::uint64_t nodes, std::uint64_t site_rate,
                   double limit) {
  const bool is_limited = limit > 0 && limit < static_cast<double>(k_relayed_rate);
  if (nodes < 2 || site_rate == 0 || is_limited) return RelayChoice::relayed;
  const bool is_slow = rate_of(look.read, look) < static_cast<double>(k_relayed_rate);
  if (look.read < look.wanted) {
    const double longest = static_cast<double>(look.wanted) / static_cast<double>(k_relayed_rate);
    const bool is_late = std::chrono::duration<double>(look.time).count() > longest;
    return is_slow && is_late ? RelayChoice::relayed : RelayChoice::open;
  }
  const double rate = rate_of(look.read_in_all, look);
  const bool is_granted = rate * static_cast<double>(nodes) <= static_cast<double>(site_rate);
  const bool is_memory = rate > static_cast<double>(k_memory_rate);
  return is_slow || is_memory || !is_granted ? RelayChoice::relayed : RelayChoice::alone;
}

std::string alone_text(const HeadLook& look, std::uint64_t nodes) {
  return "it is fast enough for all " + human_count(nodes) + " nodes (" +
         human_bytes(static_cast<std::uint64_t>(rate_of(look.read_in_all, look))) +
         "/s to the first)";
}

// Upstream: the connection to the node before, for one source.
// For one thread. After any fault, go on without it.
class Upstream {
 public:
  struct Limits {
    std::chrono::milliseconds silence;
    std::uint64_t socket_bytes;  // as of socket_bytes_for()
    const std::atomic<bool>& stop;
  };
  // Connects, proves the key, and asks. Fails with ETIMEDOUT if the node is silent for too long.
  static Result<Upstream> ask(const RelayPlan& plan, const RelayAsk& ask, const Limits& limits) {
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

  // What next() returns; nullopt: nothing came for a moment. Fails with ETIMEDOUT as above.
  struct Word {
    RelayMessage message;
    std::span<const std::byte> data;  // until the next call
  };
  Result<std::optional<Word>> next() {
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

  // Sends `alive` if it is due. Call it every second while nothing is taken.
  Status say_alive() {
    if (RelayClock::now() < spoken_ + k_alive_step) return {};
    return send(RelayMessage::alive, {});
  }

 private:
  Upstream(SealedStream stream, const Limits& limits)
      : stream_(std::move(stream)), limits_(limits), silence_(limits.silence) {}

  Status send(RelayMessage message, std::span<const std::byte> data) {
    spoken_ = RelayClock::now();
    return stream_.send(static_cast<std::uint8_t>(message), data, [this] {
      return RelayClock::now() < spoken_ + limits_.silence
                 ? Status()
                 : Error{ETIMEDOUT, "the other side does not read"};
    });
  }

  SealedStream stream_;
  Limits limits_;
  Silence silence_;  // only while it is listened to
  RelayClock::time_point spoken_ = RelayClock::now();
};

SlotFeed::SlotFeed(RelayBasis& basis, const Place& place, std::string path,
                   const RelayIdentity& identity)
    : basis_(basis),
      place_(place),
      path_(std::move(path)),
      identity_(identity),
      ring_({basis.board, place.slot, basis.spool_fd, place.ring, identity.size,
             basis.patience_with_readers(), RelayClock::now, place.kind,
             [&basis] { basis.note_slow_reader(); }}),
      choice_(place.kind == RelayKind::directory ? RelayChoice::relayed : RelayChoice::open) {}

void SlotFeed::stop() {
  stop_ = true;
  raise(basis_.board.moves);
}

void SlotFeed::run() {
  const Status status = guarded(
      [this] { return place_.kind == RelayKind::directory ? feed_directory() : feed_file(); });
  if (!status && !is_stopped(status.error())) return fail(status.error().what);
  has_ended_ = true;
}

void SlotFeed::fail(const std::string& why) {
  log_line("relay: " + shown(path_) + ": " + why);
  if (choice_ == RelayChoice::open) choose_for_all(RelayChoice::relayed);
  ring_.give_up(why);
  has_ended_ = true;
}

Status SlotFeed::feed_file() {
  TRY_ASSIGN(const auto original, basis_.open(path_, identity_));
  const RelayPlan plan = basis_.plan.await(basis_.plan_limit(), stop_);
  if (plan.part == RelayPart::off) return Error{0, plan.why};
  if (plan.part == RelayPart::link) try_upstream(plan);
  if (stop_) return stopped();
  if (choice_ != RelayChoice::alone) begin_serving("");
  if (plan.part == RelayPart::head) TRY(look_and_choose(*original));
  if (choice_ == RelayChoice::alone) return Error{0, alone_why_};
  choose_for_all(RelayChoice::relayed);
  return read_rest(*original);
}

// What was in this node's memory does not count, nor the first block, for which the file may have
// had to be looked for.
Status SlotFeed::look_and_choose(Original& original) {
  const std::uint64_t wanted = bytes_to_measure(identity_.size, place_.ring);
  HeadLook look{wanted, 0, 0, {}};
  const auto choice = [this, &look] {
    return choose(look, basis_.order.node_count, basis_.order.relay.site_rate_bytes,
                  basis_.rate.bytes_per_second());
  };
  if (choice() != RelayChoice::open) return {};
  original.forget(wanted);
  std::vector<std::byte> block(frame_bytes_for(place_.ring));
  TRY(read_block(original, block, look));
  look = HeadLook{std::min(wanted, ring_.left()), 0, 0, {}};
  while (choice() == RelayChoice::open) TRY(read_block(original, block, look));
  if (choice() != RelayChoice::alone) return {};
  static_cast<void>(have_each_read(alone_text(look, basis_.order.node_count)));
  return {};
}

void SlotFeed::choose_for_all(RelayChoice choice) {
  choice_ = choice;
  raise(basis_.board.news);
}

Status SlotFeed::feed_directory() {
  TRY(check_original_directory(path_, identity_));
  const RelayPlan plan = basis_.plan.await(basis_.plan_limit(), stop_);
  if (plan.part == RelayPart::off) return Error{0, plan.why};
  if (plan.part == RelayPart::link) try_upstream(plan);
  if (stop_) return stopped();
  if (choice_ == RelayChoice::alone) return Error{0, alone_why_};
  if (ring_.is_complete()) return {};
  if (has_begun_) return Error{0, "its stream has broken off: " + field_text(slot().left)};
  return take_from_staging();
}

Status SlotFeed::take_from_staging() {
  if (!exchange(slot().state, number(RelaySlotState::asked), number(RelaySlotState::writing)))
    return Error{0, "the staging does not ask for it any more"};
  Silence silence(basis_.silence());
  std::uint32_t beat = basis_.board.staging_beat;
  while (!stop_) {
    // In this order: what was written before the end or the closing counts.
    const bool is_closed = slot().reader != number(RelayReader::reading);
    const std::uint32_t ended = slot().is_ended;
    const std::uint64_t written = slot().written;
    if (written > slot().granted) return Error{EPROTO, "the staging writes what it may not"};
    if (written > ring_.watermark()) ring_.advance(written);
    if (ended == number(RelayStream::none))
      return have_each_read("something in it is beyond the bounds of what is relayed");
    if (ended == number(RelayStream::ended)) {
      ring_.end();
      return {};
    }
    if (is_closed) return Error{0, "its staging sends no more of it"};
    TRY(check_staging(silence, beat));
    const std::uint64_t before = slot().granted;
    const std::uint32_t seen = basis_.board.moves;
    slot().granted = ring_.grant(RelayClock::now() + k_alive_step);
    raise(basis_.board.news);
    const bool is_idle = slot().granted == before && slot().written == written;
    if (is_idle && written < before) await_raise(basis_.board.moves, seen, k_alive_step);
  }
  return stopped();
}

// A process that has died closes nothing.
Status SlotFeed::check_staging(Silence& silence, std::uint32_t& beat) {
  if (const std::uint32_t now = basis_.board.staging_beat; now != beat) {
    beat = now;
    silence.heard();
  }
  if (!silence.is_too_long()) return {};
  return Error{ETIMEDOUT, "its staging says nothing"};
}

void SlotFeed::begin_serving(const std::string& upstream) {
  if (!upstream.empty()) set_field(slot().upstream, upstream);
  if (exchange(slot().state, number(RelaySlotState::asked), number(RelaySlotState::serving)))
    raise(basis_.board.news);
}

void SlotFeed::try_upstream(const RelayPlan& plan) {
  if (RelayClock::now() < basis_.upstream_rests_until.load())
    return leave("node " + plan.node + ": it did not answer before");
  const Status status = pull(plan);
  // The spool's fault is not that of the other node; the next write finds it.
  if (status || is_stopped(status.error()) || is_spool_broken_) return;
  if (choice_ == RelayChoice::alone) return;
  if (status.error().code == ETIMEDOUT)
    basis_.upstream_rests_until = RelayClock::now() + k_rest_of_sources;
  leave("node " + plan.node + ": " + status.error().what);
  log_line("relay: " + shown(path_) + ": node '" + shown(plan.node) + "': " + status.error().what +
           "; the rest is read from the original");
}

void SlotFeed::leave(const std::string& why) {
  set_field(slot().left, why);
  slot().has_left = 1;
}

Status SlotFeed::pull(const RelayPlan& plan) {
  const RelayAsk ask{path_, identity_, ring_.watermark(), place_.kind};
  TRY_ASSIGN(Upstream upstream,
             Upstream::ask(plan, ask, {basis_.silence(), socket_bytes_for(place_.ring), stop_}));
  bool has_begun = false;
  while (!has_begun) {
    TRY_ASSIGN(const auto word, upstream.next());
    if (word && word->message == RelayMessage::alone)  // this node does so, too
      return have_each_read(decode_reason(word->data));
    if (word && word->message != RelayMessage::begin)
      return Error{EPROTO, "the other side does not begin"};
    has_begun = word.has_value();
  }
  has_begun_ = true;
  begin_serving(plan.node);
  choose_for_all(RelayChoice::relayed);
  return pull_all(upstream);
}

Status SlotFeed::have_each_read(std::string why) {
  alone_why_ = std::move(why);
  if (place_.kind == RelayKind::directory) slot().is_whole = number(RelayStream::none);
  choose_for_all(RelayChoice::alone);
  return Error{0, alone_why_};
}

Status SlotFeed::pull_all(Upstream& upstream) {
  while (!ring_.is_complete()) {
    TRY_ASSIGN(const auto word, upstream.next());
    if (!word) continue;
    if (word->message == RelayMessage::end && place_.kind == RelayKind::directory) {
      ring_.end();
      return {};
    }
    if (word->message == RelayMessage::alone && place_.kind == RelayKind::directory)
      return have_each_read(decode_reason(word->data));
    if (word->message != RelayMessage::data)
      return Error{EPROTO, "the other side ends before the source does"};
    TRY(take(upstream, word->data));
  }
  return {};
}

Status SlotFeed::take(Upstream& upstream, std::span<const std::byte> data) {
  if (data.size() > ring_.left())
    return Error{EPROTO, "the other side sends more than the source has"};
  while (!data.empty()) {
    if (stop_) return stopped();
    const std::uint64_t room = ring_.await_room(RelayClock::now() + k_alive_step);
    TRY(upstream.say_alive());
    const auto part = data.first(std::min<std::uint64_t>(room, data.size()));
    if (part.empty()) continue;
    slot().from_nodes += part.size();  // first: the staging worker may close it at the watermark
    const Status written = ring_.write(part);
    is_spool_broken_ = !written;
    TRY(written);
    data = data.subspan(part.size());
  }
  return {};
}

Result<std::uint64_t> SlotFeed::await_room() {
  while (!stop_) {
    if (const auto room = ring_.await_room(RelayClock::now() + std::chrono::seconds(1)); room > 0)
      return room;
  }
  return stopped();
}

// Adds the read to `look`, with the time that the rate of the node takes, and without that of the
// spool.
Status SlotFeed::read_block(Original& original, std::vector<std::byte>& block, HeadLook& look) {
  TRY_ASSIGN(const std::uint64_t room, await_room());
  const auto into = std::span(block).first(std::min<std::uint64_t>(room, block.size()));
  const std::uint64_t before = basis_.read_in_all;
  const auto begun = original.now();
  TRY_ASSIGN(const std::size_t count, original.read_at(ring_.watermark(), into));
  if (count == 0) return Error{EIO, shown(path_) + ": ends earlier than it should"};
  slot().from_storage += count;
  basis_.read_in_all += count;
  basis_.rate.take(count, stop_, basis_.stop);
  look.time += original.now() - begun;
  look.read += count;
  look.read_in_all += basis_.read_in_all - before;
  return ring_.write(into.first(count));
}

Status SlotFeed::read_rest(Original& original) {
  HeadLook look{};
  std::vector<std::byte> block(frame_bytes_for(place_.ring));
  while (!ring_.is_complete()) TRY(read_block(original, block, look));
  return {};
}

}  // namespace nodestage
