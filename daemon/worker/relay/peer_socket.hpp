// PeerSocket: a TCP connection to another node's relay worker, on which nothing waits without a
// limit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

using RelayClock = std::chrono::steady_clock;

class PeerSocket {
 public:
  // Takes a connected socket; `stop` is borrowed and, once set, ends every wait with stopped().
  PeerSocket(Fd fd, const std::atomic<bool>& stop);

  // `address` is numeric. The fault names address and port.
  static Result<PeerSocket> connect(const std::string& address, std::uint16_t port,
                                    RelayClock::time_point until, const std::atomic<bool>& stop);

  // What has come, at most `into`; 0: nothing until then. That the other side has closed its end is
  // a fault (ECONNRESET).
  Result<std::size_t> read(std::span<std::byte> into, RelayClock::time_point until);

  // All of it. While it has to wait, it asks `is_on` a few times a second; its fault ends the wait.
  Status write(std::span<const std::byte> data, const std::function<Status()>& is_on);

  // Says that no more will be written, and waits until the other side has read it all and closed,
  // or until then. (To close with something unread would throw away what is under way.)
  void finish(RelayClock::time_point until);

 private:
  Result<short> await(short events, RelayClock::time_point until);

  Fd fd_;
  const std::atomic<bool>* stop_;
};

struct RelayListener {
  Fd fd;
  std::uint16_t port = 0;
};

// Listens on one port from first to last, on all addresses; 0: any port.
Result<RelayListener> listen_for_peers(std::uint16_t first, std::uint16_t last);

}  // namespace nodestage
