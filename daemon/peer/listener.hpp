// Listener: the TCP port on every address of the host, IPv6 with IPv4 if the kernel has IPv6. One
// thread; needs no privilege for ports from 1024 on.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::chrono::seconds k_port_patience{3};

class Listener {
 public:
  using OnOpen = std::function<void(const Status&)>;
  using HasRoom = std::function<bool()>;  // for the next connection, which waits
  using OnAccept = std::function<void(asio::ip::tcp::socket)>;
  using OnFull = std::function<void()>;  // no descriptor is left: close something

  using Clock = std::chrono::steady_clock;

  // A port in use is tried again until `patience` is over: the nodestage-peer of an earlier daemon
  // may be about to exit.
  explicit Listener(asio::io_context& io, std::chrono::milliseconds patience = k_port_patience)
      : patience_(patience), acceptor_(io), timer_(io) {}

  // Calls on_open once. Port 0: the kernel chooses one.
  void open(std::uint16_t port, OnOpen on_open);
  [[nodiscard]] std::uint16_t port() const;

  void serve(HasRoom has_room, OnAccept on_accept, OnFull on_full);

 private:
  void try_open(std::uint16_t port, Clock::time_point until);
  std::error_code bind(const asio::ip::tcp::endpoint& endpoint);
  void accept_next();
  void accept_one();
  void pause(std::chrono::milliseconds time);

  std::chrono::milliseconds patience_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  OnOpen on_open_;
  HasRoom has_room_;
  OnAccept on_accept_;
  OnFull on_full_;
};

}  // namespace nodestage
