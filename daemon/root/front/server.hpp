// Server: the unix sockets. SO_PEERCRED identifies the caller, and the table in requests.hpp says
// what a caller may send. One request per connection.
//
// Slurm's hooks, which run as root, must be answered within seconds whatever users do:
//  - Root has a socket of its own, whose backlog no user fills.
//  - Root's requests are answered as they come. Users' requests take turns by user, for a few
//    milliseconds at a time.
//  - What is kept for callers that do not read is limited per user.
//  - No descriptor that a user sends is released here (connection_closer.hpp).
//  - Where all users together have too much of something, the user who has the most of it gives
//  way.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/connection_closer.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {

class Server {
 public:
  // At most `descriptors` connections are open at once, whatever daemon.max_connections is.
  Server(Loop& loop, const Config& config, Jobs& jobs, std::size_t descriptors)
      : loop_(loop), config_(config), jobs_(jobs), descriptors_(descriptors) {}
  ~Server();

  // Binds the socket (mode 0666; the table of requests decides which caller may ask for what) and
  // root's beside it (0600, common/wire/daemon_client.hpp). Replaces a socket without a listener,
  // and refuses one with a listener.
  Status listen(const std::string& path);

 private:
  struct Connection {
    Fd fd;
    std::uint32_t uid = 0;
    Ticket ticket = 0;                      // of a request that is answered later
    bool asked = false;                     // its one request has been read
    std::optional<Loop::TimerId> deadline;  // for the request
    std::deque<std::string> unsent;         // answers that the socket had no room for
    bool is_cut = false;                    // there were too many; no last answer is sent
  };
  struct Account {  // of one uid
    std::size_t connections = 0;
    std::size_t unsent_bytes = 0;
    std::deque<std::uint64_t> waiting;  // connections with a request that is not read yet
  };
  using Accounts = std::map<std::uint32_t, Account>;  // by uid

  Status listen_at(const std::string& path, std::uint32_t mode);
  Status watch_listener(int listener);
  void accept_all(int listener);
  void admit(Fd fd, std::uint32_t uid);
  void make_room(std::uint32_t uid);
  Accounts::iterator richest_user(std::size_t Account::*what);
  void readable(std::uint64_t id);
  void serve_users();
  void answer(std::uint64_t id);
  void send(std::uint64_t id, const Message& message);
  bool send_or_keep(std::uint64_t id, Connection& connection, std::string packet);
  void cut_richest();
  void release(const Connection& connection, std::size_t bytes);
  void send_unsent(std::uint64_t id);
  void close(std::uint64_t id);

  Loop& loop_;
  const Config& config_;
  Jobs& jobs_;
  std::size_t descriptors_;
  ConnectionCloser closer_{loop_};
  std::vector<Fd> listeners_;  // root's, users'
  std::map<std::uint64_t, Connection> connections_;
  Accounts accounts_;
  std::uint64_t next_ = 1;
  std::size_t users_unsent_bytes_ = 0;
  std::uint32_t last_served_ = 0;  // a uid; the next one's turn follows
  bool is_serving_ = false;        // serve_users() will be called
};

}  // namespace nodestage
