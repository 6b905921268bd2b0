#include "daemon/root/basis/connection_closer.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "common/os/passed_descriptors.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

#ifdef SO_PASSRIGHTS
constexpr int k_pass_rights = SO_PASSRIGHTS;
#else
constexpr int k_pass_rights = 83;  // asm-generic/socket.h of Linux 6.16
#endif

constexpr std::size_t k_most_held = 256;
constexpr std::size_t k_most_children = 64;
constexpr std::chrono::milliseconds k_gather{10};
constexpr std::size_t k_most_doublings = 12;  // of a second: about an hour
constexpr unsigned k_others_exec_s = 1;

// Looks at the next packet. Room for the credentials alone: they tell an empty packet from the end,
// and descriptors find no room. To look at a packet takes another reference to them, and to give
// that back is not to release them.
Packet look_at_packet(int connection, std::string& buffer) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(connection, &message, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (count < 0) return {Packet::Kind::end, {}};
  if ((message.msg_flags & MSG_CTRUNC) != 0) return {Packet::Kind::with_descriptors, {}};
  if (message.msg_controllen == 0) return {Packet::Kind::end, {}};
  return {Packet::Kind::plain, std::string_view(buffer).substr(0, static_cast<std::size_t>(count))};
}

// Takes everything out of a connection to which nothing can be sent any more, as far as that is
// plain. Returns whether nothing is left.
bool is_emptied(int connection) {
  for (;;) {
    switch (take_packet(connection).kind) {
      case Packet::Kind::plain:
        continue;
      case Packet::Kind::none:
      case Packet::Kind::end:
        return true;
      case Packet::Kind::with_descriptors:
        return false;
    }
  }
}

// The child's life. It has a copy of every descriptor of the daemon and keeps those that are to be
// closed, until the daemon has closed its own, and until other children, which have copies for a
// moment, run their programs: whoever closes the last one may have to wait.
int close_as_last(int daemon_is_done, const std::vector<int>& kept) {
  ::prctl(PR_SET_NAME, "nodestaged-end");
  close_all_but(kept);
  char byte = 0;
  while (::read(daemon_is_done, &byte, 1) < 0 && errno == EINTR) continue;
  ::sleep(k_others_exec_s);
  return 0;
}

}  // namespace

void refuse_descriptors(int socket) {
  const int no = 0;
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, k_pass_rights, &no, sizeof no));
}

void accept_packets(int connection) {
  const int yes = 1;
  static_cast<void>(::setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes));
}

Packet take_packet(int connection, Descriptors descriptors) {
  static std::string buffer(k_max_message_bytes + 1, '\0');  // one thread, one buffer
  Packet packet = look_at_packet(connection, buffer);
  if (packet.kind == Packet::Kind::with_descriptors && descriptors == Descriptors::taken) {
    ReceivedPacket received = receive_packet(connection, buffer, MSG_DONTWAIT);
    if (received.bytes <= 0 || received.is_cut) return {Packet::Kind::end, {}};
    packet.kind = Packet::Kind::plain;
    packet.bytes = std::string_view(buffer).substr(0, static_cast<std::size_t>(received.bytes));
    packet.descriptors = std::move(received.descriptors);
    return packet;
  }
  char byte = 0;
  if (packet.kind == Packet::Kind::plain)
    static_cast<void>(::recv(connection, &byte, sizeof byte, MSG_DONTWAIT));
  return packet;
}

ConnectionCloser::~ConnectionCloser() {
  start_child();
  for (const auto& [pid_fd, child] : children_) loop_.forget(pid_fd);
  loop_.cancel(timer_);
}

void ConnectionCloser::close(Fd connection) {
  ::shutdown(connection.get(), SHUT_RDWR);
  if (is_emptied(connection.get())) return;
  held_.push_back(std::move(connection));
  if (held_.size() >= k_most_held) return start_child();
  wait();
}

bool ConnectionCloser::is_full() const {
  return held_.size() >= k_most_held && children_.size() >= k_most_children;
}

void ConnectionCloser::wait() {
  if (timer_ || held_.empty()) return;
  const auto doublings = std::min(children_.size(), k_most_doublings);
  const bool is_due = children_.empty() || held_.size() >= k_most_held;
  const auto delay = is_due ? k_gather : std::chrono::seconds(1U << doublings);
  timer_ = loop_.after(delay, [this] {
    timer_.reset();
    start_child();
  });
}

void ConnectionCloser::start_child() {
  if (held_.empty() || children_.size() >= k_most_children) return;
  auto pipe = make_pipe();
  if (!pipe) return wait();
  std::vector<int> kept{pipe->read.get()};
  for (const Fd& fd : held_) kept.push_back(fd.get());
  std::sort(kept.begin(), kept.end());
  const auto life = [&] { return close_as_last(pipe->read.get(), kept); };
  auto child = ChildProcess::start(Orphan::left, life);
  if (!child) {
    log::error("connections cannot be closed yet: {}", child.error().what);
    return wait();
  }
  held_.clear();
  auto pid_fd = open_pid(child->pid());
  const int number = pid_fd ? pid_fd->get() : -1;
  if (number < 0 || !loop_.watch(number, [this, number] { ended(number); })) return;
  children_.emplace(number, Child{std::move(*child), std::move(*pid_fd)});
}

void ConnectionCloser::ended(int pid_fd) {
  loop_.forget(pid_fd);
  static_cast<void>(children_.at(pid_fd).process.reap());
  children_.erase(pid_fd);
  loop_.cancel(timer_);
  wait();
}

}  // namespace nodestage
