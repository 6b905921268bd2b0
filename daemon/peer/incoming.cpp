#include "daemon/peer/incoming.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/completion_condition.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <string_view>

#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

static_assert(k_peer_frame_magic.size() == 4);

Connection::Connection(asio::ip::tcp::socket socket, const Address& source)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), source_(source) {}

void Connection::start(std::chrono::seconds limit, OnCredential on_credential, OnEnd on_end) {
  on_credential_ = std::move(on_credential);
  on_end_ = std::move(on_end);
  set_timer(timer_, limit, [self = shared_from_this(), limit] { self->time_out(limit); });
  read_header();
}

void Connection::time_out(std::chrono::seconds limit) {
  const std::string within = " within " + std::to_string(limit.count()) + " s";
  switch (awaits_) {
    case Awaits::frame:
      return end("no whole frame came" + within);
    case Awaits::check:
      return end("its credential was not checked" + within +
                 ": do munged and the resolver answer?");
    case Awaits::daemon:
      return end("nodestaged did not take its note" + within);
    case Awaits::reply_taken:
      return end("it did not read the answer" + within);
  }
}

void Connection::read_header() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](const std::error_code& ec, std::size_t count) {
                     if (!self->ended_) self->take_header(ec, count);
                   });
}

// A connection that is closed without a byte only checked whether the port listens.
void Connection::take_header(const std::error_code& ec, std::size_t count) {
  if (ec && count == 0) return end("");
  if (ec) return end("half a frame: closed after " + std::to_string(count) + " bytes");
  const std::string_view header(header_.data(), header_.size());
  if (header.substr(0, k_peer_frame_magic.size()) != k_peer_frame_magic)
    return end("what it sent is not a note of nodestage-peer");
  const std::uint32_t length = WireDecoder(header.substr(k_peer_frame_magic.size())).u32();
  if (length == 0 || length > k_max_credential_bytes)
    return end("a frame of " + std::to_string(length) + " bytes");
  read_credential(length);
}

// Into a buffer that grows as bytes arrive, so that a claim of 64 KiB costs nothing.
void Connection::read_credential(std::size_t length) {
  asio::async_read(
      socket_, asio::dynamic_buffer(credential_, length), asio::transfer_exactly(length),
      [self = shared_from_this(), length](const std::error_code& ec, std::size_t count) {
        if (self->ended_) return;
        if (ec || count != length) {
          return self->end("half a frame: closed after " + std::to_string(count) + " of " +
                           std::to_string(length) + " bytes");
        }
        self->awaits_ = Awaits::check;
        self->on_credential_(self, std::move(self->credential_));
      });
}

void Connection::await_daemon() { awaits_ = Awaits::daemon; }

void Connection::answer(char reply) {
  if (ended_) return;
  awaits_ = Awaits::reply_taken;
  reply_ = reply;
  asio::async_write(
      socket_, asio::buffer(&reply_, 1),
      [self = shared_from_this()](const std::error_code&, std::size_t) { self->end(""); });
}

void Connection::end(const std::string& why) {
  if (ended_) return;
  ended_ = true;
  timer_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  on_end_(shared_from_this(), why);
}

SilentConnections::Rank SilentConnections::rank_of(const Address& address, const OfAddress& all) {
  return {all.size(), all.begin()->first, address};
}

void SilentConnections::add(Number number, const Connection::Self& connection,
                            Clock::time_point now) {
  const Address& address = connection->source();
  OfAddress& all = of_[address];
  if (!all.empty()) ranks_.erase(rank_of(address, all));
  all.emplace(number, One{connection, now});
  sources_.emplace(number, address);
  ranks_.insert(rank_of(address, all));
}

void SilentConnections::remove(Number number, const Address& source) {
  const auto found = of_.find(source);
  if (found == of_.end() || !found->second.contains(number)) return;
  ranks_.erase(rank_of(source, found->second));
  found->second.erase(number);
  sources_.erase(number);
  if (found->second.empty()) {
    of_.erase(found);
  } else {
    ranks_.insert(rank_of(source, found->second));
  }
}

SilentConnections::Silent SilentConnections::first_to_go(std::size_t share) const {
  const bool is_beyond = ranks_.begin()->count > share;
  const OfAddress& all = of_.at(is_beyond ? ranks_.begin()->address : sources_.begin()->second);
  const One& oldest = all.begin()->second;
  return {oldest.connection, oldest.since, all.size()};
}

void DropReports::report(const std::string& address, const std::string& why) {
  if (reported_ == 0 && unreported_ == 0) begin_second();
  const bool is_reported =
      reported_ < k_drops_a_second && channel_.offer(PeerDropped{address, why}) == Offered::taken;
  ++(is_reported ? reported_ : unreported_);
}

void DropReports::begin_second() {
  set_timer(timer_, std::chrono::seconds(1), [this] { end_second(); });
}

void DropReports::end_second() {
  reported_ = 0;
  if (unreported_ == 0) return;
  const PeerDropped more{"several addresses",
                         std::to_string(unreported_) + " more connections brought nothing of use"};
  if (channel_.offer(more) == Offered::taken) unreported_ = 0, reported_ = 1;
  begin_second();
}

namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds k_pause{100};
constexpr std::chrono::milliseconds k_pause_for_room{10};  // short: nodes wait

bool is_no_ipv6(const std::error_code& ec) {
  return ec == asio::error::address_family_not_supported ||
         ec == std::errc::address_not_available || ec == std::errc::protocol_not_supported;
}

}  // namespace

void Listener::open(std::uint16_t port, OnOpen on_open) {
  on_open_ = std::move(on_open);
  try_open(port, Clock::now() + patience_);
}

void Listener::try_open(std::uint16_t port, Clock::time_point until) {
  std::error_code fault = bind({tcp::v6(), port});
  if (is_no_ipv6(fault)) fault = bind({tcp::v4(), port});
  if (!fault) return on_open_({});
  if (fault != asio::error::address_in_use || Clock::now() >= until) {
    return on_open_(Error{fault.value(), "port " + std::to_string(port) + ": " + fault.message()});
  }
  set_timer(timer_, k_pause, [this, port, until] { try_open(port, until); });
}

std::error_code Listener::bind(const tcp::endpoint& endpoint) {
  std::error_code ec;
  acceptor_.close(ec);
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
  const bool is_v6 = endpoint.protocol() == tcp::v6();
  if (!ec && is_v6) acceptor_.set_option(asio::ip::v6_only(false), ec);
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  return ec;
}

std::uint16_t Listener::port() const { return acceptor_.local_endpoint().port(); }

void Listener::serve(HasRoom has_room, OnAccept on_accept, OnFull on_full) {
  has_room_ = std::move(has_room);
  on_accept_ = std::move(on_accept);
  on_full_ = std::move(on_full);
  accept_next();
}

void Listener::accept_next() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const std::error_code& ec) {
    if (ec) return;
    if (has_room_()) return accept_one();
    set_timer(timer_, k_pause_for_room, [this] { accept_next(); });
  });
}

void Listener::accept_one() {
  acceptor_.async_accept([this](const std::error_code& ec, tcp::socket socket) {
    if (ec == asio::error::operation_aborted) return;
    if (!ec) on_accept_(std::move(socket));
    const bool no_room = ec == asio::error::no_descriptors || ec == asio::error::no_memory ||
                         ec == asio::error::no_buffer_space ||
                         ec == std::errc::too_many_files_open_in_system;
    if (!no_room) return accept_next();
    on_full_();
    set_timer(timer_, k_pause, [this] { accept_next(); });
  });
}

namespace {

// A node can have some notes under way at the same moment, each over a connection of its own.
std::size_t share_of_address(std::size_t max_connections) {
  return std::max<std::size_t>(max_connections / 8, 4);
}

}  // namespace

void Incoming::accept(asio::ip::tcp::socket socket) {
  std::error_code fault;
  const auto source = socket.remote_endpoint(fault);
  if (fault) return;  // closed already
  const Number number = next_++;
  const auto connection =
      std::make_shared<Connection>(std::move(socket), comparable(source.address()));
  silent_.add(number, connection);
  connection->start(
      limits_.io_wait,
      [this, number](const Connection::Self& self, std::string credential) {
        judge(number, self, std::move(credential));
      },
      [this, number](const Connection::Self& self, const std::string& why) {
        forget(number, self, why);
      });
}

bool Incoming::has_room() {
  if (silent_.size() + served_.size() < limits_.max_connections) return true;
  if (silent_.empty()) return false;
  const std::size_t share = share_of_address(limits_.max_connections);
  const auto first = silent_.first_to_go(share);
  if (first.of_address <= share && Clock::now() - first.since < k_grace) return false;
  first.connection->end("closed to make room: " + std::to_string(limits_.max_connections) +
                        " connections were open (peer.max_connections)");
  return true;
}

void Incoming::drop_one(const std::string& why) {
  if (silent_.empty() && served_.empty()) return;
  const Connection::Self one =
      silent_.empty() ? served_.begin()->second
                      : silent_.first_to_go(share_of_address(limits_.max_connections)).connection;
  one->end(why);
}

void Incoming::forget(Number number, const Connection::Self& connection, const std::string& why) {
  silent_.remove(number, connection->source());
  served_.erase(number);
  if (!why.empty()) drops_.report(address_text(connection->source()), why);
}

// The threads' queue is bounded here, since connections can come and go while checks wait.
void Incoming::judge(Number number, const Connection::Self& connection, std::string credential) {
  silent_.remove(number, connection->source());
  served_.emplace(number, connection);
  if (checking_ >= limits_.max_connections)
    return refuse(connection, "too many credentials wait to be checked: does munged answer?");
  ++checking_;
  background_.run([check = check_, credential = std::move(credential),
                   source = connection->source()] { return check(credential, source); },
                  [this, connection](Result<std::string> payload) {
                    --checking_;
                    settle(connection, std::move(payload));
                  });
}

// A good note is passed on even if its sender has not waited: its credential is used up.
void Incoming::settle(const Connection::Self& connection, Result<std::string> payload) {
  if (!payload) return refuse(connection, payload.error().what);
  if (channel_.unsent() >= limits_.max_connections)
    return refuse(connection, "nodestaged is too busy to take its note");
  connection->await_daemon();
  channel_.say(PeerReceived{std::move(*payload), address_text(connection->source())},
               [connection] { connection->answer(k_peer_taken); });
}

void Incoming::refuse(const Connection::Self& connection, const std::string& why) {
  drops_.report(address_text(connection->source()), why);
  connection->answer(k_peer_refused);
}

}  // namespace nodestage
