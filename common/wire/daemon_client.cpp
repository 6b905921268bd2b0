#include "common/wire/daemon_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/passed_descriptors.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_retry_pause{100};
constexpr std::chrono::seconds k_backlog_wait{1};

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 3'600'000));
}

// Waits until the descriptor has `events` or is broken (then the next call on it fails).
Status wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int count = ::poll(&entry, 1, milliseconds_until(deadline));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return system_error("poll");
    if (Clock::now() >= deadline) return Error{ETIMEDOUT, "no answer from nodestaged in time"};
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

void pause_until(Deadline deadline) {
  ::poll(nullptr, 0, milliseconds_until(std::min(deadline, Clock::now() + k_retry_pause)));
}

Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return system_error(path, ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket");
  // The wait while the daemon's backlog is full.
  const timeval patience{k_backlog_wait.count(), 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_error(path);
  }
  return fd;
}

}  // namespace

std::string root_socket(const std::string& path) {
  constexpr std::string_view k_suffix = ".sock";
  const bool has_suffix = path.ends_with(k_suffix);
  return path.substr(0, path.size() - (has_suffix ? k_suffix.size() : 0)) + "-root" +
         std::string(has_suffix ? k_suffix : "");
}

Result<DaemonConnection> DaemonConnection::open(const std::string& path) {
  if (::geteuid() == 0) {
    if (auto own = connect_to(root_socket(path))) return DaemonConnection(std::move(*own));
  }
  TRY_ASSIGN(Fd fd, connect_to(path));
  return DaemonConnection(std::move(fd));
}

Status DaemonConnection::send(const Message& message, Deadline deadline,
                              const std::vector<int>& descriptors) {
  std::string packet = encode_message(message);
  const iovec part{packet.data(), packet.size()};
  for (;;) {
    const ssize_t sent = send_packet(socket_.get(), {&part, 1}, descriptors);
    if (sent >= 0) return {};
    if (would_block()) {
      TRY(wait_for(socket_.get(), POLLOUT, deadline));
    } else if (errno != EINTR) {
      return system_error("send to nodestaged");
    }
  }
}

Result<Message> DaemonConnection::receive(Deadline deadline) {
  std::string packet(k_max_message_bytes, '\0');
  for (;;) {
    TRY(wait_for(socket_.get(), POLLIN, deadline));
    const ssize_t count = ::recv(socket_.get(), packet.data(), packet.size(), MSG_TRUNC);
    if (count < 0 && (errno == EINTR || would_block())) continue;
    if (count < 0) return system_error("receive from nodestaged");
    if (count == 0) return Error{ECONNRESET, "nodestaged closed the connection"};
    const auto bytes = static_cast<std::size_t>(count);
    if (bytes > packet.size()) return Error{EPROTO, "a message longer than the protocol allows"};
    return decode_message(std::string_view(packet).substr(0, bytes));
  }
}

bool is_daemon_away(const Error& error) {
  switch (error.code) {
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:  // its backlog is full
      return true;
    default:
      return false;
  }
}

Result<DaemonConnection> reach_daemon(const std::string& path, Deadline deadline) {
  for (;;) {
    auto connection = DaemonConnection::open(path);
    if (connection || !is_daemon_away(connection.error()) || Clock::now() >= deadline) {
      return connection;
    }
    pause_until(deadline);
  }
}

Result<Message> ask_daemon(const std::string& path, const Message& request, Deadline reach,
                           Deadline answer, const std::vector<int>& descriptors) {
  const auto patience = reach - Clock::now();
  for (;;) {
    TRY_ASSIGN(DaemonConnection connection, reach_daemon(path, reach));
    const Status sent = connection.send(request, answer, descriptors);
    auto reply = sent ? connection.receive(answer) : Result<Message>(sent.error());
    if (reply || !is_daemon_away(reply.error()) || Clock::now() >= answer) return reply;
    // The daemon went away after it had answered, perhaps to restart: start the same wait again.
    reach = std::min(answer, Clock::now() + patience);
    pause_until(reach);
  }
}

}  // namespace nodestage
