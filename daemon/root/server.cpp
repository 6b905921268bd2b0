#include "daemon/root/server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/root/log.hpp"
#include "daemon/root/refusal_log.hpp"
#include "daemon/root/requests.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_unsent_bytes = std::size_t{32} << 20;  // of all connections

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{ENAMETOOLONG, path + ": too long for a socket"};
  path.copy(address.sun_path, path.size());
  return address;
}

bool somebody_listens(const sockaddr_un& address) {
  const Fd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Status Server::listen(const std::string& path) {
  TRY_ASSIGN(const sockaddr_un address, address_of(path));
  if (somebody_listens(address)) return Error{EADDRINUSE, path + ": another nodestaged is running"};
  ::unlink(path.c_str());
  listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_ ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0666) != 0 || ::listen(listener_.get(), 256) != 0) {
    return system_error(path);
  }
  return loop_.watch(listener_.get(), [this] { accept_one(); });
}

std::size_t Server::connections_of(std::uint32_t uid) const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [uid](const auto& item) { return item.second.uid == uid; }));
}

void Server::accept_one() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  // Root (slurmd's hooks) always finds a place; one user may use half of the rest.
  const std::size_t most = config_.daemon.max_connections;
  const bool crowd = connections_of(peer.uid) >= most / 2;
  if (!crowd && connections_.size() >= most) {
    // Who waits for no answer makes room, the oldest first: with subordinate uids one user can be
    // many.
    const auto idle = std::find_if(connections_.begin(), connections_.end(), [](const auto& item) {
      return item.second.ticket == 0 && item.second.uid != 0;
    });
    if (idle != connections_.end()) close(idle->first);
  }
  if ((crowd || connections_.size() >= most) && peer.uid != 0) {
    log_refusal("uid=" + std::to_string(peer.uid), "too many connections, one more");
    return;
  }
  const std::uint64_t id = next_++;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  connection.uid = peer.uid;
  if (!loop_.watch(connection.fd.get(), [this, id] { readable(id); })) {
    connections_.erase(id);
    return;
  }
  connection.deadline =
      loop_.after(std::chrono::seconds(config_.daemon.request_wait_s), [this, id] { close(id); });
}

void Server::readable(std::uint64_t id) {
  Connection& connection = connections_.at(id);
  static std::string packet(k_max_message_bytes + 1, '\0');  // one thread, one buffer
  const ssize_t count = ::recv(connection.fd.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0 || connection.asked) return close(id);
  connection.asked = true;
  loop_.cancel(*connection.deadline);
  const auto bytes = static_cast<std::size_t>(count);
  const Ticket ticket =
      handle_request(jobs_, connection.uid, std::string_view(packet).substr(0, bytes),
                     [this, id](const Message& message) { send(id, message); });
  connection.ticket = ticket;
}

// A caller that does not read loses progress. Long lists wait here, in bounds, until he has read:
// the daemon never waits for anybody. The connection is closed by its caller, or soon by the
// deadline.
void Server::send(std::uint64_t id, const Message& message) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const bool is_row =
      std::holds_alternative<StatusRow>(message) || std::holds_alternative<StatusItem>(message) ||
      std::holds_alternative<HeldRow>(message) || std::holds_alternative<ReportRow>(message);
  const bool is_progress = std::holds_alternative<Progress>(message);
  std::string packet = encode_message(message);
  if (is_progress) {
    ::send(connection.fd.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  const bool is_sent = send_or_keep(id, connection, std::move(packet));
  if (is_row) return;
  if (is_sent) ::shutdown(connection.fd.get(), SHUT_WR);
  connection.deadline =
      loop_.after(std::chrono::seconds(config_.daemon.request_wait_s), [this, id] { close(id); });
}

// Whether nothing is left to send.
bool Server::send_or_keep(std::uint64_t id, Connection& connection, std::string packet) {
  if (connection.is_cut) return false;
  if (connection.unsent.empty()) {
    const int fd = connection.fd.get();
    if (::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno == EMSGSIZE) log::error("an answer of {} bytes is too long to send", packet.size());
    if (errno != EAGAIN) return true;
    if (!loop_.want_write(fd, [this, id] { send_unsent(id); })) return true;
  }
  connection.is_cut = unsent_bytes_ + packet.size() > k_max_unsent_bytes;
  if (connection.is_cut) return false;
  unsent_bytes_ += packet.size();
  connection.unsent.push_back(std::move(packet));
  return false;
}

void Server::send_unsent(std::uint64_t id) {
  Connection& connection = connections_.at(id);
  const int fd = connection.fd.get();
  while (!connection.unsent.empty()) {
    const std::string& packet = connection.unsent.front();
    const bool sent = ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    if (!sent && errno == EAGAIN) return;
    unsent_bytes_ -= packet.size();
    connection.unsent.pop_front();
  }
  static_cast<void>(loop_.want_write(fd, nullptr));
  ::shutdown(fd, SHUT_WR);  // the last answer was among them
}

void Server::close(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection connection = std::move(found->second);
  connections_.erase(found);
  loop_.forget(connection.fd.get());
  for (const std::string& packet : connection.unsent) unsent_bytes_ -= packet.size();
  if (connection.deadline) loop_.cancel(*connection.deadline);
  if (connection.ticket != 0) jobs_.leave(connection.ticket);
}

}  // namespace nodestage
