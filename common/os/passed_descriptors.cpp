#include "common/os/passed_descriptors.hpp"

#include <array>
#include <cerrno>
#include <cstring>

namespace nodestage {
namespace {

constexpr std::size_t k_control_bytes = CMSG_SPACE(k_most_passed * sizeof(int));

// Takes every descriptor, so that none stays open: the kernel gives them all.
std::vector<Fd> descriptors_of(msghdr& message) {
  std::vector<Fd> all;
  for (cmsghdr* with = CMSG_FIRSTHDR(&message); with != nullptr;
       with = CMSG_NXTHDR(&message, with)) {
    if (with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (with->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(with) + i * sizeof fd, sizeof fd);
      all.emplace_back(fd);
    }
  }
  return all;
}

}  // namespace

ssize_t send_packet(int socket, std::span<const iovec> parts, const std::vector<int>& descriptors) {
  if (descriptors.size() > k_most_passed) {
    errno = EMSGSIZE;
    return -1;
  }
  const std::size_t bytes = descriptors.size() * sizeof(int);
  alignas(cmsghdr) std::array<char, k_control_bytes> control{};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(with), descriptors.data(), bytes);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

ReceivedPacket receive_packet(int socket, std::span<char> buffer, int flags) {
  alignas(cmsghdr) std::array<char, k_control_bytes> control{};
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ReceivedPacket packet;
  packet.bytes = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  if (packet.bytes < 0) return packet;
  packet.is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  packet.descriptors = descriptors_of(message);
  return packet;
}

}  // namespace nodestage
