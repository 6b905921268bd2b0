// Helper: a child of the daemon that serves it over a SOCK_SEQPACKET pair and exits with it. It
// does what may block or needs no privilege.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class Helper {
 public:
  // Runs in the child, as root. The child's end of the channel is k_peer_channel_fd, that of a pair
  // with another helper k_signer_fd, its stderr is the daemon's, and it has no other descriptor.
  // Returns the exit code.
  using Body = std::function<int()>;
  using OnPacket = std::function<void(std::string_view)>;
  // Called when the child has exited. It may destroy the Helper.
  using OnEnd = std::function<void()>;

  static Result<std::unique_ptr<Helper>> start(Loop& loop, const Body& body, const Fd& to_other,
                                               OnPacket on_packet, OnEnd on_end);
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper();

  // Never blocks: keeps what the child does not read in time; returns false if it is too much.
  bool send(std::string packet);

 private:
  Helper(Loop& loop, OnPacket on_packet, OnEnd on_end)
      : loop_(loop), on_packet_(std::move(on_packet)), on_end_(std::move(on_end)) {}
  Status watch();
  void readable();
  void flush();
  void ended();

  Loop& loop_;
  OnPacket on_packet_;
  OnEnd on_end_;
  ChildProcess child_;
  Fd pid_fd_;
  Fd channel_;
  bool open_ = true;  // until it closes its end
  std::deque<std::string> unsent_;
};

}  // namespace nodestage
