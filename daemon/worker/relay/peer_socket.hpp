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

#include "common/os/file.hpp"
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

  // Bounds the bytes that the kernel holds for each direction.
  void bound_buffers(std::uint64_t bytes);

  // Waits for bytes, and returns how many are in `into`; 0: none came by `until`. Fails with
  // ECONNRESET once the other side has closed.
  Result<std::size_t> read(std::span<std::byte> into, RelayClock::time_point until);

  // Writes all. While it waits, it asks `is_on` a few times a second, and forwards its fault.
  Status write(std::span<const std::byte> data, const std::function<Status()>& is_on);

  // Ends the writing, and waits until the other side has read all and closed. (To close with
  // something unread would throw away what is under way.)
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
