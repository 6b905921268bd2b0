#include "daemon/peer/incoming.hpp"

#include <algorithm>

namespace nodestage {
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
  if (checking_ >= limits_.max_connections) {
    return refuse(connection, "too many credentials wait to be checked: does munged answer?");
  }
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
