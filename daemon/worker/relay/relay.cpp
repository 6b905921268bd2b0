#include "daemon/worker/relay/relay.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/task_crew.hpp"

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

// Successor: one connection from another node's relay worker, which gets one source.
// For a thread of its own.
class Successor {
 public:
  // Takes a connection on which the key has been proved. Borrows the basis and the table.
  Successor(RelayBasis& basis, SlotTable& table, SealedStream stream)
      : basis_(basis), table_(table), stream_(std::move(stream)), silence_(basis.silence()) {}

  // Serves until the successor has all, has gone, or was dropped. A fault says why it did not get
  // all.
  Status serve() {
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

 private:
  Result<RelayAsk> receive_ask() {
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
  Result<JoinedFeed> join(const RelayAsk& ask) {
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

  // A directory may turn out to have no stream only when some of it was sent.
  Status leave_or_send_on(const SlotFeed& feed, const std::string& why) {
    if (feed.choice() == RelayChoice::alone)
      return send_last(RelayMessage::alone, feed.alone_why());
    return leave(why);
  }

  Status serve_from(const SlotFeed& feed, RingReader& reader) {
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

  Status send_more(RingReader& reader) {
    TRY_ASSIGN(const std::size_t bytes, reader.read(block_));
    TRY(send(RelayMessage::data, std::span(block_).first(bytes)));
    reader.advance(bytes);
    return check();
  }

  Status send(RelayMessage message, std::span<const std::byte> data) {
    spoken_ = RelayClock::now();
    return stream_.send(static_cast<std::uint8_t>(message), data, [this] { return check(); });
  }

  // Until it is known whether this source is relayed at all.
  Status await_choice(const SlotFeed& feed) {
    for (;;) {
      const std::uint32_t seen = basis_.board.news;
      if (feed.choice() != RelayChoice::open || feed.has_ended()) return {};
      TRY(check());
      TRY(say_alive());
      await_raise(basis_.board.news, seen, k_alive_step);
    }
  }

  Status send_last(RelayMessage message, const std::string& why) {
    reader_ = nullptr;
    const std::string text = encode_reason(why);
    TRY(send(message, std::as_bytes(std::span(text))));
    stream_.finish(RelayClock::now() + k_finish_limit);
    return {};
  }

  Status leave(const std::string& why) {
    TRY(send_last(RelayMessage::leave, why));
    return Error{0, why};
  }

  Status say_alive() {
    return RelayClock::now() < spoken_ + k_alive_step ? Status() : send(RelayMessage::alive, {});
  }

  // Takes what the successor says, which can only be that it is alive.
  Status listen() {
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

  // What ends a wait for the successor: it is dropped, or gone without a word.
  Status check() {
    if (basis_.stop) return stopped();
    if (reader_ != nullptr && reader_->is_dropped())
      return Error{ETIMEDOUT, "it has kept others waiting for too long"};
    return listen();
  }

  RelayBasis& basis_;
  SlotTable& table_;
  SealedStream stream_;
  RingReader* reader_ = nullptr;
  std::vector<std::byte> block_;
  Silence silence_;
  RelayClock::time_point spoken_ = RelayClock::now();
};

constexpr std::chrono::seconds k_handshake_limit{5};
constexpr milliseconds k_accept_step{500};
constexpr milliseconds k_pause{100};  // when there are too many, or no descriptor is left

}  // namespace

// RelayServer: listens for successors, and serves each in a thread. Any host can connect:
// connections without a proof, their time, and successors are bounded.
class RelayServer {
 public:
  // Both are borrowed.
  RelayServer(RelayBasis& basis, SlotTable& table) : basis_(basis), table_(table) {}
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  // Listens on the order's ports and starts to accept. After a fault, no node can get data from
  // here.
  Status start() {
    const auto& order = basis_.order;
    TRY_ASSIGN(listener_, listen_for_peers(order.relay.ports.first, order.relay.ports.last));
    if (basis_.threads.start([this] { accept_all(); })) return {};
    listener_ = RelayListener{};
    return Error{EAGAIN, "no thread can be started"};
  }

  [[nodiscard]] std::uint16_t port() const { return listener_.port; }

  // Wakes the thread that accepts, which ends once RelayBasis::stop is set.
  void stop() const {
    if (listener_.fd) static_cast<void>(::shutdown(listener_.fd.get(), SHUT_RDWR));
  }

  [[nodiscard]] unsigned successors() const { return proven_; }
  // Returns when the last successor was there, at first when this was made.
  [[nodiscard]] RelayClock::time_point last_served() const { return last_served_; }

 private:
  void accept_all() {
    while (!basis_.stop) {
      pollfd entry{listener_.fd.get(), POLLIN, 0};
      const bool is_ready = ::poll(&entry, 1, static_cast<int>(k_accept_step.count())) > 0;
      if (proven_ > 0) last_served_ = RelayClock::now();
      if (!is_ready) continue;
      if (unproven_ >= k_most_unproven || !accept_one()) std::this_thread::sleep_for(k_pause);
    }
  }

  Status accept_one() {
    auto socket = std::make_shared<Fd>(
        ::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!*socket) return system_error("accept");
    ++unproven_;
    if (basis_.threads.start([this, socket] { serve(std::move(*socket)); })) return {};
    --unproven_;
    return Error{EAGAIN, "no thread can be started"};
  }

  void serve(Fd socket) {
    const Status status = guarded([this, &socket]() -> Status {
      auto stream = meet(std::move(socket));
      if (!stream) return std::move(stream.error());
      ++proven_;
      Status served = guarded([&] { return serve_proven(std::move(*stream)); });
      --proven_;
      last_served_ = RelayClock::now();
      return served;
    });
    if (!status && !is_stopped(status.error()))
      log_line("relay: a node that asked for data did not get all: " + status.error().what);
  }

  // Before this node knows its own plan, it does not know the key either.
  Result<SealedStream> meet(Fd socket) {
    const std::shared_ptr<void> proven(nullptr, [this](void*) { --unproven_; });
    const RelayPlan plan = basis_.plan.await(
        RelayClock::now() + std::chrono::seconds(basis_.order.relay.answer_wait_s), basis_.stop);
    if (plan.part != RelayPart::head && plan.part != RelayPart::link)
      return Error{0, "this node has no key"};
    return SealedStream::meet(PeerSocket(std::move(socket), basis_.stop), RelaySide::server,
                              plan.key,
                              RelayClock::now() + std::min(k_handshake_limit, basis_.silence()));
  }

  Status serve_proven(SealedStream stream) {
    if (proven_ > k_most_successors) return Error{EAGAIN, "there are too many already"};
    return Successor(basis_, table_, std::move(stream)).serve();
  }

  RelayBasis& basis_;
  SlotTable& table_;
  RelayListener listener_;
  std::atomic<unsigned> unproven_ = 0;
  std::atomic<unsigned> proven_ = 0;
  std::atomic<RelayClock::time_point> last_served_ = RelayClock::now();
};

namespace {

// Several times a second, as relay_board.hpp promises for `beat`.
constexpr std::chrono::milliseconds k_beat{200};
// All wait for the plan, which the daemon writes into a file.
constexpr std::chrono::milliseconds k_plan_step{10};

}  // namespace

Relay::Relay(const RelayOrder& order, const Descriptors& descriptors, Board board,
             OpenOriginal open)
    : board_(std::move(board)),
      rate_(descriptors.rate),
      plan_fd_(descriptors.plan),
      basis_{order, *board_, descriptors.spool, rate_, std::move(open)},
      table_(basis_),
      server_(std::make_unique<RelayServer>(basis_, table_)) {}

Result<std::unique_ptr<Relay>> Relay::make(const RelayOrder& order, const Descriptors& descriptors,
                                           OpenOriginal open) {
  TRY_ASSIGN(Board board, Board::map(descriptors.board));
  return std::unique_ptr<Relay>(new Relay(order, descriptors, std::move(board), std::move(open)));
}

Relay::~Relay() {
  stop();
  basis_.threads.await_end(RelayClock::time_point::max());
}

std::uint16_t Relay::listen() {
  const Status started = server_->start();
  if (!started) no_port_ = started.error().what;
  return server_->port();
}

// By the plan; or by the staging worker, which needs the room that the spool takes.
bool Relay::is_off() {
  if (board_->is_off != 0) return true;
  is_planned_ = basis_.plan.look(plan_fd_);
  if (!is_planned_) return false;
  const RelayPlan plan = basis_.plan.await(RelayClock::now(), basis_.stop);
  if (plan.part != RelayPart::off) return false;
  set_field(board_->why, plan.why);
  board_->is_off = 1;
  raise(board_->news);
  return true;
}

bool Relay::is_over() {
  if (board_->staging_is_over == 0) return false;
  if (board_->lanes == 0) return true;  // there was nothing to relay
  const auto now = RelayClock::now();
  if (!staging_over_since_) staging_over_since_ = now;
  const auto since = std::max(*staging_over_since_, server_->last_served());
  return server_->successors() == 0 && now >= since + basis_.silence();
}

void Relay::run() {
  board_->magic = k_relay_board_magic;
  while (!basis_.stop && !is_off() && !is_over()) {
    const std::uint32_t seen = board_->asks;
    ++board_->beat;
    table_.tend();
    const bool awaits_plan = !is_planned_ && RelayClock::now() < basis_.plan_limit();
    await_raise(board_->asks, seen, awaits_plan ? k_plan_step : k_beat);
  }
  stop();
}

void Relay::stop() {
  basis_.stop = true;
  server_->stop();
  table_.stop();
  for (auto* word : {&board_->asks, &board_->moves, &board_->news}) raise(*word);
}

bool Relay::await_end(RelayClock::time_point until) {
  const bool have_ended = basis_.threads.await_end(until);
  if (board_->is_off != 0 && ::ftruncate(basis_.spool_fd, 0) == 0) raise(board_->news);
  return have_ended;
}

namespace {

// For threads to end; only one that hangs in a file system takes longer.
constexpr std::chrono::seconds k_end_limit{2};

int report(WorkerPhase phase, const std::string& cause, std::uint16_t port) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  header.relay_port = port;
  set_field(header.cause, cause);
  const Status written = write_status_header(k_worker_status_fd, header);
  if (!written) log_line(written.error().text());
  return phase == WorkerPhase::failed ? 1 : 0;
}

int fail(const std::string& cause) {
  log_line("relay: failed: " + cause);
  return report(WorkerPhase::failed, cause, 0);
}

}  // namespace

int run_relay(const RelayOrder& order) {
  if (!order.has_board) return fail("the daemon has given no board");
  auto relay = Relay::make(order, {});
  if (!relay) return fail(relay.error().text());
  const std::uint16_t port = (*relay)->listen();
  if (port == 0) log_line("relay: no port to listen on: " + (*relay)->no_port());
  report(WorkerPhase::working, "", port);
  (*relay)->run();
  const int code = report(WorkerPhase::done, "", 0);
  if (!(*relay)->await_end(RelayClock::now() + k_end_limit)) ::_exit(code);
  return code;
}

}  // namespace nodestage
