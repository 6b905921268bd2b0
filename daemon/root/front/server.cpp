#include "daemon/root/front/server.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "common/wire/daemon_client.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/front/requests.hpp"

namespace nodestage {
namespace {

// The bound on answers kept for callers that do not read. Root may ask for all jobs of the node.
constexpr std::size_t k_most_unsent_of_user = std::size_t{8} << 20;
constexpr std::size_t k_most_unsent_of_users = std::size_t{64} << 20;
constexpr std::size_t k_most_unsent_of_root = std::size_t{64} << 20;
// The time for users' requests between two looks at everything else.
constexpr std::chrono::milliseconds k_users_share{5};
constexpr std::uint32_t k_roots_mode = 0600;
constexpr int k_backlog = 1024;
constexpr int k_most_accepted = 256;
constexpr std::chrono::seconds k_full_pause{1};

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

Status check_unused(const std::string& path) {
  TRY_ASSIGN(const sockaddr_un address, address_of(path));
  if (somebody_listens(address)) return Error{EADDRINUSE, path + ": another nodestaged is running"};
  return {};
}

}  // namespace

// What is not accepted yet, and what is open, is closed as all connections are.
Server::~Server() {
  for (const Fd& listener : listeners_) {
    loop_.forget(listener.get());
    for (int i = 0; i < k_backlog; ++i) {
      Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) break;
      accept_packets(fd.get());
      closer_.close(std::move(fd));
    }
  }
  for (auto& [id, connection] : connections_) {
    loop_.forget(connection.fd.get());
    closer_.close(std::move(connection.fd));
  }
}

// Root's hooks fall back on the other one, which takes no descriptors: so root's comes first.
Status Server::listen(const std::string& path) {
  TRY(check_unused(path));
  TRY(listen_at(root_socket(path), k_roots_mode));
  return listen_at(path, 0666);
}

// Callers find the socket only when it has its mode and somebody listens: a job that came between
// bind() and chmod(), as a daemon starts, would be refused, and fail.
Status Server::listen_at(const std::string& path, std::uint32_t mode) {
  TRY(check_unused(path));
  const std::string made = path + ".new";
  TRY_ASSIGN(const sockaddr_un made_address, address_of(made));
  ::unlink(made.c_str());
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&made_address),
                          sizeof made_address) != 0) {
    return system_error(path);
  }
  if (mode != k_roots_mode) refuse_descriptors(listener.get());
  if (::chmod(made.c_str(), mode) != 0 || ::listen(listener.get(), k_backlog) != 0 ||
      ::rename(made.c_str(), path.c_str()) != 0) {
    return system_error(path);
  }
  return watch_listener(listeners_.emplace_back(std::move(listener)).get());
}

Status Server::watch_listener(int listener) {
  return loop_.watch(listener, [this, listener] { accept_all(listener); });
}

// Bounded: callers may connect as fast as they are accepted.
void Server::accept_all(int listener) {
  if (closer_.is_full() && listener == listeners_.back().get()) {
    log_refusal("users",
                "nobody is accepted while this many connections cannot be closed: " +
                    std::to_string(closer_.children()) +
                    " processes (nodestaged-end) wait for file systems that do not answer");
    loop_.forget(listener);
    loop_.after(k_full_pause, [this, listener] { static_cast<void>(watch_listener(listener)); });
    return;
  }
  for (int i = 0; i < k_most_accepted; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    accept_packets(fd.get());
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
      admit(std::move(fd), peer.uid);
    else
      closer_.close(std::move(fd));
  }
}

void Server::admit(Fd fd, std::uint32_t uid) {
  // Root always gets a connection; one user may use half of the rest.
  const std::size_t most = std::min<std::size_t>(config_.daemon.max_connections, descriptors_);
  const auto account = accounts_.find(uid);
  const bool crowd = account != accounts_.end() && account->second.connections >= most / 2;
  if (!crowd && connections_.size() >= most) make_room(uid);
  if ((crowd || connections_.size() >= most) && uid != 0) {
    log_refusal("uid=" + std::to_string(uid), "too many connections");
    return closer_.close(std::move(fd));
  }
  const std::uint64_t id = next_++;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  connection.uid = uid;
  ++accounts_[uid].connections;
  if (!loop_.watch(connection.fd.get(), [this, id] { readable(id); })) return close(id);
  connection.deadline =
      loop_.after(std::chrono::seconds(config_.daemon.request_wait_s), [this, id] { close(id); });
}

// Who waits for no answer goes first, the oldest first: with subordinate uids one user can be many.
// Then the oldest of the user who has by far the most.
void Server::make_room(std::uint32_t uid) {
  const auto oldest = [this](const auto& leaves) {
    const auto found = std::find_if(connections_.begin(), connections_.end(), leaves);
    if (found != connections_.end()) close(found->first);
    return found != connections_.end();
  };
  if (oldest([](const auto& item) { return item.second.ticket == 0 && item.second.uid != 0; }))
    return;
  const auto own = accounts_.find(uid);
  const auto richest = richest_user(&Account::connections);
  if (richest != accounts_.end() && richest->first != uid &&
      richest->second.connections > 1 + (own == accounts_.end() ? 0 : own->second.connections))
    oldest([who = richest->first](const auto& item) { return item.second.uid == who; });
}

Server::Accounts::iterator Server::richest_user(std::size_t Account::*what) {
  auto richest = accounts_.end();
  for (auto account = accounts_.upper_bound(0); account != accounts_.end(); ++account) {
    if (richest == accounts_.end() || account->second.*what > richest->second.*what)
      richest = account;
  }
  return richest;
}

void Server::readable(std::uint64_t id) {
  Connection& connection = connections_.at(id);
  if (connection.asked || connection.uid == 0) return answer(id);
  // The request stays in the socket until its user's turn.
  loop_.forget(connection.fd.get());
  accounts_[connection.uid].waiting.push_back(id);
  if (!std::exchange(is_serving_, true)) loop_.after({}, [this] { serve_users(); });
}

void Server::serve_users() {
  is_serving_ = false;
  const auto end = Clock::now() + k_users_share;
  for (;;) {
    const auto is_waiting = [](const auto& item) { return !item.second.waiting.empty(); };
    auto next = std::find_if(accounts_.upper_bound(last_served_), accounts_.end(), is_waiting);
    if (next == accounts_.end())
      next = std::find_if(accounts_.begin(), accounts_.end(), is_waiting);
    if (next == accounts_.end()) return;
    if (Clock::now() >= end) break;
    last_served_ = next->first;
    const std::uint64_t id = next->second.waiting.front();
    next->second.waiting.pop_front();
    const auto connection = connections_.find(id);
    if (connection == connections_.end()) continue;  // it was closed to make room
    const int fd = connection->second.fd.get();
    if (loop_.watch(fd, [this, id] { readable(id); })) {
      answer(id);
    } else {
      close(id);
    }
  }
  // A daemon that is never idle would wait for processor time behind every job of the node.
  is_serving_ = true;
  loop_.after(k_users_share, [this] { serve_users(); });
}

void Server::answer(std::uint64_t id) {
  Connection& connection = connections_.at(id);
  const auto descriptors = connection.uid == 0 ? Descriptors::taken : Descriptors::refused;
  Packet packet = take_packet(connection.fd.get(), descriptors);
  if (packet.kind == Packet::Kind::none) return;
  if (packet.kind == Packet::Kind::with_descriptors)
    log_refusal("uid=" + std::to_string(connection.uid), "descriptors with a request");
  const bool is_request = packet.kind == Packet::Kind::plain && !packet.bytes.empty();
  if (!is_request || connection.asked) return close(id);
  connection.asked = true;
  loop_.cancel(*connection.deadline);
  const Ticket ticket =
      handle_request(jobs_, connection.uid, {packet.bytes, std::move(packet.descriptors)},
                     [this, id](const Message& message) { send(id, message); });
  connection.ticket = ticket;
}

// Callers that do not read lose progress. Long lists are kept here, within bounds, until the caller
// has read: the daemon never waits for a caller. The caller or the deadline closes the connection.
void Server::send(std::uint64_t id, const Message& message) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const bool is_progress = std::holds_alternative<Progress>(message);
  std::string packet = encode_message(message);
  if (is_progress) {
    ::send(connection.fd.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  const bool is_sent = send_or_keep(id, connection, std::move(packet));
  if (role_of(message) != MessageRole::last) return;
  if (is_sent) ::shutdown(connection.fd.get(), SHUT_WR);
  connection.deadline =
      loop_.after(std::chrono::seconds(config_.daemon.request_wait_s), [this, id] { close(id); });
}

// Returns whether nothing is left to send.
bool Server::send_or_keep(std::uint64_t id, Connection& connection, std::string packet) {
  if (connection.is_cut) return false;
  if (connection.unsent.empty()) {
    const int fd = connection.fd.get();
    if (::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno == EMSGSIZE) log::error("an answer of {} bytes is too long to send", packet.size());
    if (errno != EAGAIN) return true;
    if (!loop_.want_write(fd, [this, id] { send_unsent(id); })) return true;
  }
  const bool is_root = connection.uid == 0;
  std::size_t& unsent = accounts_[connection.uid].unsent_bytes;
  connection.is_cut =
      unsent + packet.size() > (is_root ? k_most_unsent_of_root : k_most_unsent_of_user);
  if (connection.is_cut) return false;
  if (!is_root && users_unsent_bytes_ + packet.size() > k_most_unsent_of_users) cut_richest();
  if (connection.is_cut) return false;
  unsent += packet.size();
  if (!is_root) users_unsent_bytes_ += packet.size();
  connection.unsent.push_back(std::move(packet));
  return false;
}

// Closes all connections of the user who has the most to read.
void Server::cut_richest() {
  const auto richest = richest_user(&Account::unsent_bytes);
  if (richest == accounts_.end()) return;
  for (auto& [id, connection] : connections_) {
    if (connection.uid != richest->first || connection.unsent.empty()) continue;
    for (const std::string& packet : connection.unsent) release(connection, packet.size());
    connection.unsent.clear();
    connection.is_cut = true;
    // Not here: another caller's answer is being sent.
    loop_.after({}, [this, gone = id] { close(gone); });
  }
}

void Server::release(const Connection& connection, std::size_t bytes) {
  accounts_[connection.uid].unsent_bytes -= bytes;
  if (connection.uid != 0) users_unsent_bytes_ -= bytes;
}

void Server::send_unsent(std::uint64_t id) {
  Connection& connection = connections_.at(id);
  const int fd = connection.fd.get();
  while (!connection.unsent.empty()) {
    const std::string& packet = connection.unsent.front();
    const bool sent = ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    if (!sent && errno == EAGAIN) return;
    release(connection, packet.size());
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
  for (const std::string& packet : connection.unsent) release(connection, packet.size());
  const auto account = accounts_.find(connection.uid);
  if (--account->second.connections == 0) accounts_.erase(account);
  loop_.cancel(connection.deadline);
  if (connection.ticket != 0) jobs_.leave(connection.ticket);
  closer_.close(std::move(connection.fd));
}

}  // namespace nodestage
