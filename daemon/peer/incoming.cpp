#include "daemon/peer/incoming.hpp"

namespace nodestage {

void Incoming::accept(asio::ip::tcp::socket socket) {
  std::error_code fault;
  const auto source = socket.remote_endpoint(fault);
  if (fault) return;  // closed already
  if (open_.size() >= limits_.max_connections) {
    drop_oldest("closed to make room: " + std::to_string(limits_.max_connections) +
                " connections were open (peer.max_connections)");
  }
  open_.push_back(std::make_shared<Connection>(std::move(socket), comparable(source.address())));
  open_.back()->start(
      limits_.io_wait,
      [this](const Connection::Self& self, std::string credential) {
        judge(self, std::move(credential));
      },
      [this](const Connection::Self& self, const std::string& why) { forget(self, why); });
}

void Incoming::drop_oldest(const std::string& why) {
  if (open_.empty()) return;
  const Connection::Self oldest = open_.front();
  oldest->end(why);
}

void Incoming::forget(const Connection::Self& connection, const std::string& why) {
  open_.remove(connection);
  if (!why.empty()) drops_.report(address_text(connection->source()), why);
}

// The threads' queue is bounded here, since connections can come and go while checks wait.
void Incoming::judge(const Connection::Self& connection, std::string credential) {
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
  if (channel_.offer(PeerReceived{std::move(*payload), address_text(connection->source())}) ==
      Offered::full) {
    return refuse(connection, "nodestaged is too busy to take its note");
  }
  connection->answer(k_peer_taken);
}

void Incoming::refuse(const Connection::Self& connection, const std::string& why) {
  drops_.report(address_text(connection->source()), why);
  connection->answer(k_peer_refused);
}

}  // namespace nodestage
