// Server: the unix socket. Who is at the other end is SO_PEERCRED; what a caller may ask is the
// table in requests.hpp. One request a connection.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/protocol.hpp"
#include "daemon/root/config.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/loop.hpp"

namespace nodestage {

class Server {
 public:
  Server(Loop& loop, const Config& config, Jobs& jobs)
      : loop_(loop), config_(config), jobs_(jobs) {}

  // Binds the socket (0666: everybody may ask, the table says what). A socket that nobody listens
  // to is replaced; one that somebody does is a fault.
  Status listen(const std::string& path);

 private:
  struct Connection {
    Fd fd;
    std::uint32_t uid = 0;
    Ticket ticket = 0;                      // of a request that is answered later
    bool asked = false;                     // its one request has been read
    std::optional<Loop::TimerId> deadline;  // for the request
    std::deque<std::string> unsent;         // answers that its socket had no room for
    bool is_cut = false;                    // there were too many; it hears no last one
  };

  void accept_one();
  void readable(std::uint64_t id);
  void send(std::uint64_t id, const Message& message);
  bool send_or_keep(std::uint64_t id, Connection& connection, std::string packet);
  void send_unsent(std::uint64_t id);
  void close(std::uint64_t id);
  [[nodiscard]] std::size_t connections_of(std::uint32_t uid) const;

  Loop& loop_;
  const Config& config_;
  Jobs& jobs_;
  Fd listener_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_ = 1;
  std::size_t unsent_bytes_ = 0;  // of all connections
};

}  // namespace nodestage
