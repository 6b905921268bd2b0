#include "cli/doctor/free_ports.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/os/fd.hpp"

namespace nodestage {
namespace {

template <typename Address>
int bind_fault(int family, const Address& address) {
  const Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const int on = 1;
  // Connections that have ended lately do not hinder a process that listens.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                            : errno;
}

// 0, or the errno. An IPv6 socket takes the port of IPv4, too.
int port_fault(std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const int fault = bind_fault(AF_INET6, v6);
  if (fault != EAFNOSUPPORT && fault != EADDRNOTAVAIL) return fault;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  return bind_fault(AF_INET, v4);
}

}  // namespace

FreePorts find_free_ports(std::uint16_t first, std::uint16_t last) {
  FreePorts ports;
  for (std::uint32_t port = first; port <= last; ++port) {
    const int fault = port_fault(static_cast<std::uint16_t>(port));
    ++ports.tried;
    if (fault == 0)
      ++ports.free;
    else
      ports.fault = std::strerror(fault);
  }
  return ports;
}

}  // namespace nodestage
