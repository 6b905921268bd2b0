#include "daemon/peer/connection.hpp"

#include <asio/buffer.hpp>
#include <asio/completion_condition.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <string_view>

#include "common/wire/peer_channel.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

static_assert(k_peer_frame_magic.size() == 4);

Connection::Connection(asio::ip::tcp::socket socket, const Address& source)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), source_(source) {}

void Connection::start(std::chrono::seconds limit, OnCredential on_credential, OnEnd on_end) {
  on_credential_ = std::move(on_credential);
  on_end_ = std::move(on_end);
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this(), limit](const std::error_code& ec) {
    if (!ec) self->time_out(limit);
  });
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
  if (header.substr(0, k_peer_frame_magic.size()) != k_peer_frame_magic) {
    return end("what it sent is not a note of nodestage-peer");
  }
  const std::uint32_t length = WireDecoder(header.substr(k_peer_frame_magic.size())).u32();
  if (length == 0 || length > k_max_credential_bytes) {
    return end("a frame of " + std::to_string(length) + " bytes");
  }
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

}  // namespace nodestage
