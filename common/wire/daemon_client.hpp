// DaemonConnection: one conversation with nodestaged (common/wire/protocol.hpp), every step of it
// under a deadline. Needs no privilege; starts no thread. A signal handler that returns does not
// end a wait, only the deadline does.
#pragma once

#include <chrono>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// Where the daemon that listens at `path` listens for root alone:
// "/run/nodestage/nodestaged.sock" → "/run/nodestage/nodestaged-root.sock".
std::string root_socket(const std::string& path);

class DaemonConnection {
 public:
  explicit DaemonConnection(Fd socket) : socket_(std::move(socket)) {}

  // One try, which waits for a second at most while the daemon's backlog is full. For root at
  // root_socket(path), and at `path` where an older daemon has none.
  static Result<DaemonConnection> open(const std::string& path);

  Status send(const Message& message, Deadline deadline);

  // Faults: ETIMEDOUT, ECONNRESET when the daemon has closed, EPROTO for what is no message.
  Result<Message> receive(Deadline deadline);

 private:
  Fd socket_;
};

// Whether a fault only says that no daemon is there now: it may be restarting.
bool is_daemon_away(const Error& error);

// Like open(), tried again each 100 ms while the daemon is away.
Result<DaemonConnection> reach_daemon(const std::string& path, Deadline deadline);

// One request and its one reply; a connection that breaks before the reply is tried again, since
// every request of these (begin, end, exited) may be repeated. `reach` bounds each time that the
// daemon is away.
Result<Message> ask_daemon(const std::string& path, const Message& request, Deadline reach,
                           Deadline answer);

}  // namespace nodestage
