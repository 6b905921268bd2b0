// Connection: one incoming connection, from accept to close: magic, length, credential, and one
// byte back, all within one limit. It does not look into the credential. One thread; a pending
// operation keeps it alive.
#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/peer/addresses.hpp"

namespace nodestage {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Self = std::shared_ptr<Connection>;
  // Called when a whole frame has arrived; the connection waits for answer().
  using OnCredential = std::function<void(const Self&, std::string credential)>;
  // Called once, when the connection is closed. `why` is empty when there is nothing to report.
  using OnEnd = std::function<void(const Self&, const std::string& why)>;

  Connection(asio::ip::tcp::socket socket, const Address& source);

  void start(std::chrono::seconds limit, OnCredential on_credential, OnEnd on_end);
  void await_daemon();               // the credential is good: the daemon has to take the note
  void answer(char reply);           // k_peer_taken or k_peer_refused; then closes
  void end(const std::string& why);  // like answer(), does nothing once ended

  [[nodiscard]] const Address& source() const { return source_; }

 private:
  enum class Awaits { frame, check, daemon, reply_taken };
  void read_header();
  void take_header(const std::error_code& ec, std::size_t count);
  void read_credential(std::size_t length);
  void time_out(std::chrono::seconds limit);

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  Address source_;
  OnCredential on_credential_;
  OnEnd on_end_;
  std::array<char, 8> header_{};
  std::string credential_;
  char reply_ = 0;
  Awaits awaits_ = Awaits::frame;
  bool ended_ = false;
};

}  // namespace nodestage
