// Packets on a unix socket that carry descriptors (SCM_RIGHTS, unix(7)).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <span>
#include <vector>

#include "common/os/file.hpp"

namespace nodestage {

// The most that a packet carries here.
inline constexpr std::size_t k_most_passed = 16;

// Sends one packet with copies of these descriptors. Returns what sendmsg() returns, and errno.
ssize_t send_packet(int socket, std::span<const iovec> parts, const std::vector<int>& descriptors);

struct ReceivedPacket {
  ssize_t bytes = -1;   // as recvmsg() returns them, with errno
  bool is_cut = false;  // the buffer, or this process, had no room for all of it
  std::vector<Fd> descriptors;
};

// Receives one packet into `buffer`, and all descriptors that it carries. `flags`: as recvmsg()'s.
ReceivedPacket receive_packet(int socket, std::span<char> buffer, int flags);

}  // namespace nodestage
