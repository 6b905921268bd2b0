// Channel: nodestage-peer's end of the packets to and from nodestaged
// (common/wire/peer_channel.hpp). Never blocks. One thread. Faults of sending are not reported; the
// end of the channel is.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <string>
#include <variant>

#include "common/os/file.hpp"
#include "common/wire/peer_channel.hpp"

namespace nodestage {

enum class Offered { taken, full, gone };

class Channel {
 public:
  using OnMessage = std::function<void(PeerMessage)>;
  // The daemon has closed its end, or (a fault) has sent a packet that cannot be decoded.
  using OnEnd = std::function<void(const Status&)>;

  Channel(asio::io_context& io, Fd socket) : socket_(io, socket.release()) {}

  // Calls on_message for each packet, and on_end once.
  void listen(OnMessage on_message, OnEnd on_end);

  // Sends now or drops the message.
  [[nodiscard]] Offered offer(const PeerMessage& message);
  // Sends now or when there is room, in order, and then calls on_sent.
  using OnSent = std::function<void()>;
  void say(const PeerMessage& message, OnSent on_sent = {});
  // How many messages wait for room.
  [[nodiscard]] std::size_t unsent() const { return unsent_.size(); }

 private:
  enum class Read { packet, nothing, end };
  struct Unsent {
    std::string packet;
    OnSent on_sent;
  };
  void await_packets();
  void read_packets();
  Read read_packet();
  Read end(const Status& status);
  Offered send(const std::string& packet);
  void await_room();

  asio::posix::stream_descriptor socket_;
  OnMessage on_message_;
  OnEnd on_end_;
  std::string packet_;
  std::deque<Unsent> unsent_;
};

}  // namespace nodestage
