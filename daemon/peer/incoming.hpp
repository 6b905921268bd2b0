// Incoming: the connections of other nodes, and what becomes of their notes. The daemon has a note
// before its sender hears that it was taken. One thread.
//
// When max_connections are open, the oldest one that has not sent a whole frame within k_grace is
// closed for the next. An address that has more than its share of those, an eighth of
// max_connections, has no such time, and its oldest is the first to go. Those that have sent a
// frame are served first, however many nodes report at the same moment: meanwhile, the kernel keeps
// the next ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "daemon/peer/background.hpp"
#include "daemon/peer/channel.hpp"
#include "daemon/peer/connection.hpp"
#include "daemon/peer/credential.hpp"
#include "daemon/peer/drop_reports.hpp"
#include "daemon/peer/silent_connections.hpp"

namespace nodestage {

// Longer than the least time after which TCP sends again (200 ms).
inline constexpr std::chrono::milliseconds k_grace{300};

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

  // Returns whether there is room for one more connection, and may close a silent one for it.
  [[nodiscard]] bool has_room();
  // Takes ownership of the connection.
  void accept(asio::ip::tcp::socket socket);
  // Closes the silent one that is first to go, else the oldest. Does nothing when none is open.
  void drop_one(const std::string& why);

 private:
  using Number = SilentConnections::Number;

  void judge(Number number, const Connection::Self& connection, std::string credential);
  void settle(const Connection::Self& connection, Result<std::string> payload);
  void refuse(const Connection::Self& connection, const std::string& why);
  void forget(Number number, const Connection::Self& connection, const std::string& why);

  Background& background_;
  Channel& channel_;
  DropReports drops_;
  Limits limits_;
  Check check_;
  Number next_ = 0;
  SilentConnections silent_;
  std::map<Number, Connection::Self> served_;  // have sent a whole frame
  std::size_t checking_ = 0;                   // counts connections that were closed meanwhile, too
};

}  // namespace nodestage
