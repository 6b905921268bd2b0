// DaemonConnection: one conversation with nodestaged (common/wire/protocol.hpp), with a deadline
// for each step. Needs no privilege; starts no thread. A signal whose handler returns does not end
// a wait; only the deadline does.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// The root-only socket of the daemon that listens at `path`:
// "/run/nodestage/nodestaged.sock" → "/run/nodestage/nodestaged-root.sock".
std::string root_socket(const std::string& path);

class DaemonConnection {
 public:
  explicit DaemonConnection(Fd socket) : socket_(std::move(socket)) {}

  // Tries once; waits for at most a second while the daemon's backlog is full. For root, tries
  // root_socket(path) first, then `path`, since an older daemon has no root socket.
  static Result<DaemonConnection> open(const std::string& path);

  // With copies of these descriptors, which only root's socket takes.
  Status send(const Message& message, Deadline deadline, const std::vector<int>& descriptors = {});

  // Faults: ETIMEDOUT; ECONNRESET: the daemon closed the connection; EPROTO: not a message.
  Result<Message> receive(Deadline deadline);

 private:
  Fd socket_;
};

// Whether a fault means only that no daemon runs now; it may be restarting.
bool is_daemon_away(const Error& error);

// Like open(), but tries again every 100 ms while the daemon is away.
Result<DaemonConnection> reach_daemon(const std::string& path, Deadline deadline);

// Sends one request and returns its one reply. If the connection breaks before the reply, tries
// again: such requests (begin, end, exited) can be repeated. `reach` bounds each absence of the
// daemon.
Result<Message> ask_daemon(const std::string& path, const Message& request, Deadline reach,
                           Deadline answer, const std::vector<int>& descriptors = {});

}  // namespace nodestage
