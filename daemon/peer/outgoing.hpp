// Outgoing: the deliveries that the daemon ordered, at most k_max_deliveries at a time, in order.
// Each is answered by one PeerDelivered. One thread.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/wire/peer_note.hpp"
#include "daemon/peer/addresses.hpp"
#include "daemon/peer/channel.hpp"

namespace nodestage {

// Delivery: brings one credential to one node within one limit: tries the node's addresses in turn,
// connects, sends the frame, reads the one byte back. One thread; a pending operation keeps it
// alive.
class Delivery : public std::enable_shared_from_this<Delivery> {
 public:
  struct Means {
    asio::io_context& io;
    Background& background;
    AddressBook& book;
    std::uint16_t port;
    std::chrono::seconds limit;
  };
  // Each is called once. on_release comes last, when no operation is pending any more: looking up a
  // name can take longer than the delivery may last.
  using OnReport = std::function<void(const std::string& fault)>;
  using OnRelease = std::function<void()>;

  Delivery(const Means& means, PeerDeliver order);
  void start(OnReport on_report, OnRelease on_release);

 private:
  enum class Step { look_up, connect, talk };
  void look_up();
  void take_addresses(Result<Addresses> found);
  void try_next();
  void connected(const std::error_code& ec);
  void send();
  void await_reply();
  void judge_reply();
  void await_time(Clock::time_point due);
  void time_out();
  void end(const std::string& fault);
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::string no_answer() const;

  Means means_;
  PeerDeliver order_;
  OnReport on_report_;
  OnRelease on_release_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  Clock::time_point due_;
  Addresses addresses_;
  std::size_t tried_ = 0;  // addresses_[tried_ - 1] is in use
  std::string faults_;     // of the addresses tried before
  std::string frame_;
  char reply_ = 0;
  Step step_ = Step::look_up;
  bool timed_out_ = false;  // of the address in use
  bool ended_ = false;
};

inline constexpr std::size_t k_max_deliveries = 256;

class Outgoing {
 public:
  Outgoing(const Delivery::Means& means, Channel& channel) : means_(means), channel_(channel) {}

  void deliver(PeerDeliver order);

 private:
  void start(PeerDeliver order);
  void released();

  Delivery::Means means_;
  Channel& channel_;
  std::deque<PeerDeliver> waiting_;
  std::size_t active_ = 0;
};

}  // namespace nodestage
