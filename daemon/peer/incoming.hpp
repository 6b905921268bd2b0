// Incoming: the connections of other nodes, and what becomes of their notes. The daemon has a note
// before its sender hears that it was taken. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>

#include "daemon/peer/background.hpp"
#include "daemon/peer/channel.hpp"
#include "daemon/peer/connection.hpp"
#include "daemon/peer/credential.hpp"
#include "daemon/peer/drop_reports.hpp"

namespace nodestage {

class Incoming {
 public:
  struct Limits {
    std::chrono::seconds io_wait{5};
    std::size_t max_connections = 1024;
  };
  // Called in background threads. Returns the note.
  using Check = std::function<Result<std::string>(const std::string& credential, const Address&)>;

  Incoming(asio::io_context& io, Background& background, Channel& channel, Limits limits,
           Check check)
      : background_(background),
        channel_(channel),
        drops_(io, channel),
        limits_(limits),
        check_(std::move(check)) {}

  // Takes ownership of the connection. Beyond max_connections, the oldest is closed.
  void accept(asio::ip::tcp::socket socket);
  // Does nothing when no connection is open.
  void drop_oldest(const std::string& why);

 private:
  void judge(const Connection::Self& connection, std::string credential);
  void settle(const Connection::Self& connection, Result<std::string> payload);
  void refuse(const Connection::Self& connection, const std::string& why);
  void forget(const Connection::Self& connection, const std::string& why);

  Background& background_;
  Channel& channel_;
  DropReports drops_;
  Limits limits_;
  Check check_;
  std::list<Connection::Self> open_;  // oldest first
  std::size_t checking_ = 0;          // counts connections that were closed meanwhile, too
};

}  // namespace nodestage
