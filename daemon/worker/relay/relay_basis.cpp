#include "daemon/worker/relay/relay_basis.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {
namespace {

using std::chrono::milliseconds;

// How long a wait goes on before it looks at `stop` again.
constexpr milliseconds k_poll_step{250};
constexpr int k_backlog = 64;

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

template <typename Address>
Endpoint endpoint_of(const Address& address) {
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

sockaddr_in6 any_v6(std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  return address;
}

sockaddr_in any_v4(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return address;
}

// Not getaddrinfo(3), which opens sockets of other kinds. A scope ("fe80::1%2") is a number.
Result<Endpoint> parse_endpoint(const std::string& text, std::uint16_t port) {
  sockaddr_in v4 = any_v4(port);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) return endpoint_of(v4);
  sockaddr_in6 v6 = any_v6(port);
  const auto scope = text.find('%');
  if (scope != std::string::npos)
    v6.sin6_scope_id =
        static_cast<std::uint32_t>(std::strtoul(text.c_str() + scope + 1, nullptr, 10));
  if (::inet_pton(AF_INET6, text.substr(0, scope).c_str(), &v6.sin6_addr) == 1)
    return endpoint_of(v6);
  return Error{EINVAL, "it is not an IP address"};
}

void set_option(int fd, int level, int name, int value) {
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

Result<Fd> open_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  return fd;
}

Result<Fd> bind_to(const Endpoint& endpoint) {
  TRY_ASSIGN(Fd fd, open_socket(endpoint.storage.ss_family));
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (endpoint.storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), endpoint.get(), endpoint.size) != 0) return system_error("bind");
  if (::listen(fd.get(), k_backlog) != 0) return system_error("listen");
  return fd;
}

Result<std::uint16_t> port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return system_error("getsockname");
  // The port is at the same place for both families.
  sockaddr_in address{};
  std::memcpy(&address, &storage, sizeof address);
  return ntohs(address.sin_port);
}

Result<RelayListener> listen_on(std::uint16_t port) {
  auto fd = bind_to(endpoint_of(any_v6(port)));
  const int code = fd ? 0 : fd.error().code;
  if (code == EAFNOSUPPORT || code == EADDRNOTAVAIL) fd = bind_to(endpoint_of(any_v4(port)));
  if (!fd) return std::move(fd.error());
  TRY_ASSIGN(const std::uint16_t bound, port_of(fd->get()));
  return RelayListener{std::move(*fd), bound};
}

}  // namespace

PeerSocket::PeerSocket(Fd fd, const std::atomic<bool>& stop) : fd_(std::move(fd)), stop_(&stop) {
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<PeerSocket> PeerSocket::connect(const std::string& address, std::uint16_t port,
                                       RelayClock::time_point until,
                                       const std::atomic<bool>& stop) {
  const std::string name = address + " port " + std::to_string(port);
  auto endpoint = parse_endpoint(address, port);
  if (!endpoint) return with_prefix(std::move(endpoint.error()), name + ": ");
  TRY_ASSIGN(Fd fd, open_socket(endpoint->storage.ss_family));
  PeerSocket made(std::move(fd), stop);
  if (::connect(made.fd_.get(), endpoint->get(), endpoint->size) != 0) {
    if (errno != EINPROGRESS) return system_error(name);
    TRY_ASSIGN(const short ready, made.await(POLLOUT, until));
    if (ready == 0) return system_error(name, ETIMEDOUT);
    int code = 0;
    socklen_t size = sizeof code;
    if (::getsockopt(made.fd_.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    if (code != 0) return system_error(name, code);
  }
  return made;
}

void PeerSocket::bound_buffers(std::uint64_t bytes) {
  const auto value = static_cast<int>(std::min<std::uint64_t>(bytes, 1U << 30));
  set_option(fd_.get(), SOL_SOCKET, SO_SNDBUF, value);
  set_option(fd_.get(), SOL_SOCKET, SO_RCVBUF, value);
}

// Returns the events, 0 if there are none by `until`.
Result<short> PeerSocket::await(short events, RelayClock::time_point until) {
  for (;;) {
    if (*stop_) return stopped();
    const auto left = std::chrono::ceil<milliseconds>(until - RelayClock::now());
    pollfd entry{fd_.get(), events, 0};
    const auto step = std::clamp(left, milliseconds(0), k_poll_step);
    const int count = ::poll(&entry, 1, static_cast<int>(step.count()));
    if (count < 0 && errno != EINTR) return system_error("poll");
    if (count > 0) return entry.revents;
    if (left <= k_poll_step && count == 0) return short{0};
  }
}

Result<std::size_t> PeerSocket::read(std::span<std::byte> into, RelayClock::time_point until) {
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count == 0) return Error{ECONNRESET, "the other side has closed the connection"};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("the connection");
    if (!*stop_ && until <= RelayClock::now()) return std::size_t{0};
    TRY_ASSIGN(const short ready, await(POLLIN, until));
    if (ready == 0) return std::size_t{0};
  }
}

Status PeerSocket::write(std::span<const std::byte> data, const std::function<Status()>& is_on) {
  while (!data.empty()) {
    const ssize_t count = ::send(fd_.get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      data = data.subspan(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("the connection");
    TRY_ASSIGN([[maybe_unused]] const short ready, await(POLLOUT, RelayClock::now() + k_poll_step));
    TRY(is_on());
  }
  return {};
}

void PeerSocket::finish(RelayClock::time_point until) {
  if (::shutdown(fd_.get(), SHUT_WR) != 0) return;
  std::byte dropped[4096];
  while (true) {
    const auto count = read(dropped, until);
    if (!count || *count == 0) return;
    if (RelayClock::now() >= until) return;
  }
}

Result<RelayListener> listen_for_peers(std::uint16_t first, std::uint16_t last) {
  if (first == 0 || last < first) return listen_on(0);
  // Jobs that begin together look for a port in different places.
  const unsigned ports = last - first + 1U;
  const auto start = static_cast<unsigned>(::getpid()) % ports;
  for (unsigned i = 0; i < ports; ++i) {
    auto listener = listen_on(static_cast<std::uint16_t>(first + (start + i) % ports));
    if (listener || listener.error().code != EADDRINUSE) return listener;
  }
  return Error{EADDRINUSE, "all ports from " + std::to_string(first) + " to " +
                               std::to_string(last) + " are in use"};
}

namespace {

class OriginalFile : public Original {
 public:
  OriginalFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    auto count = pread_all(fd_.get(), into, offset);
    if (!count) return system_error(shown(path_) + ": cannot be read", count.error().code);
    return count;
  }

  void forget(std::uint64_t bytes) override {
    const auto length = static_cast<off_t>(bytes);
    static_cast<void>(::posix_fadvise(fd_.get(), 0, length, POSIX_FADV_DONTNEED));
  }

 private:
  Fd fd_;
  std::string path_;
};

}  // namespace

Status check_original_directory(const std::string& path, const RelayIdentity& identity) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (!fd) return system_error(shown(path), fd.error().code);
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(shown(path));
  if (directory_identity_of(info, identity.size) == identity) return {};
  return Error{ESTALE, shown(path) + ": is not the same directory here, or has changed"};
}

Result<std::unique_ptr<Original>> open_original(const std::string& path,
                                                const RelayIdentity& identity) {
  auto fd = open_at(AT_FDCWD, path, k_open_source);
  if (!fd) return system_error(shown(path), fd.error().code);
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(shown(path));
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, shown(path) + ": is not a regular file"};
  if (identity_of(info) != identity)
    return Error{ESTALE, shown(path) + ": is not the same file here, or has changed"};
  static_cast<void>(::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return std::unique_ptr<Original>(std::make_unique<OriginalFile>(std::move(*fd), path));
}

}  // namespace nodestage
