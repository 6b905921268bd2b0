#include "daemon/peer/channel.hpp"

#include <sys/socket.h>

namespace nodestage {
namespace {

constexpr int k_packets_a_turn = 32;  // then the connections get their turn

}  // namespace

void Channel::listen(OnMessage on_message, OnEnd on_end) {
  on_message_ = std::move(on_message);
  on_end_ = std::move(on_end);
  await_packets();
}

void Channel::await_packets() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& ec) {
    if (!ec) read_packets();
  });
}

void Channel::read_packets() {
  for (int i = 0; i < k_packets_a_turn; ++i) {
    const Read read = read_packet();
    if (read == Read::end) return;
    if (read == Read::nothing) break;
  }
  await_packets();
}

Channel::Read Channel::read_packet() {
  packet_.resize(k_max_channel_bytes + 1);
  const ssize_t count =
      ::recv(socket_.native_handle(), packet_.data(), packet_.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Read::nothing;
  if (count <= 0) return end({});
  if (static_cast<std::size_t>(count) > k_max_channel_bytes) {
    return end(Error{EMSGSIZE, "a packet that is too long"});
  }
  auto message =
      decode_peer_message(std::string_view(packet_).substr(0, static_cast<std::size_t>(count)));
  if (!message) return end(std::move(message.error()));
  on_message_(std::move(*message));
  return Read::packet;
}

Channel::Read Channel::end(const Status& status) {
  on_end_(status);
  return Read::end;
}

Offered Channel::offer(const PeerMessage& message) {
  return unsent_.empty() ? send(encode_peer_message(message)) : Offered::full;
}

void Channel::say(const PeerMessage& message, OnSent on_sent) {
  std::string packet = encode_peer_message(message);
  if (unsent_.empty()) {
    const Offered offered = send(packet);
    if (offered == Offered::taken && on_sent) on_sent();
    if (offered != Offered::full) return;
  }
  unsent_.push_back({std::move(packet), std::move(on_sent)});
  if (unsent_.size() == 1) await_room();
}

// Any fault other than a full channel means a closing channel; read_packet() reports that, and
// nobody is to hear that a note was taken.
Offered Channel::send(const std::string& packet) {
  const int fd = socket_.native_handle();
  if (::send(fd, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
    return Offered::taken;
  const bool full = errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM;
  return full ? Offered::full : Offered::gone;
}

void Channel::await_room() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, [this](const std::error_code& ec) {
    if (ec) return;
    Offered offered = Offered::taken;
    while (!unsent_.empty() && (offered = send(unsent_.front().packet)) == Offered::taken) {
      const OnSent on_sent = std::move(unsent_.front().on_sent);
      unsent_.pop_front();
      if (on_sent) on_sent();
    }
    if (offered == Offered::full) await_room();
  });
}

}  // namespace nodestage
