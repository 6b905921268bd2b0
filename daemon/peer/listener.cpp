#include "daemon/peer/listener.hpp"

#include <asio/ip/v6_only.hpp>

namespace nodestage {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds k_pause{100};
constexpr std::chrono::milliseconds k_pause_for_room{10};  // short: nodes wait

bool is_no_ipv6(const std::error_code& ec) {
  return ec == asio::error::address_family_not_supported ||
         ec == std::errc::address_not_available || ec == std::errc::protocol_not_supported;
}

}  // namespace

void Listener::open(std::uint16_t port, OnOpen on_open) {
  on_open_ = std::move(on_open);
  try_open(port, Clock::now() + patience_);
}

void Listener::try_open(std::uint16_t port, Clock::time_point until) {
  std::error_code fault = bind({tcp::v6(), port});
  if (is_no_ipv6(fault)) fault = bind({tcp::v4(), port});
  if (!fault) return on_open_({});
  if (fault != asio::error::address_in_use || Clock::now() >= until) {
    return on_open_(Error{fault.value(), "port " + std::to_string(port) + ": " + fault.message()});
  }
  timer_.expires_after(k_pause);
  timer_.async_wait([this, port, until](const std::error_code& ec) {
    if (!ec) try_open(port, until);
  });
}

std::error_code Listener::bind(const tcp::endpoint& endpoint) {
  std::error_code ec;
  acceptor_.close(ec);
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
  const bool is_v6 = endpoint.protocol() == tcp::v6();
  if (!ec && is_v6) acceptor_.set_option(asio::ip::v6_only(false), ec);
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  return ec;
}

std::uint16_t Listener::port() const { return acceptor_.local_endpoint().port(); }

void Listener::serve(HasRoom has_room, OnAccept on_accept, OnFull on_full) {
  has_room_ = std::move(has_room);
  on_accept_ = std::move(on_accept);
  on_full_ = std::move(on_full);
  accept_next();
}

void Listener::accept_next() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const std::error_code& ec) {
    if (ec) return;
    has_room_() ? accept_one() : pause(k_pause_for_room);
  });
}

void Listener::accept_one() {
  acceptor_.async_accept([this](const std::error_code& ec, tcp::socket socket) {
    if (ec == asio::error::operation_aborted) return;
    if (!ec) on_accept_(std::move(socket));
    const bool no_room = ec == asio::error::no_descriptors || ec == asio::error::no_memory ||
                         ec == asio::error::no_buffer_space ||
                         ec == std::errc::too_many_files_open_in_system;
    if (!no_room) return accept_next();
    on_full_();
    pause(k_pause);
  });
}

void Listener::pause(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([this](const std::error_code& ec) {
    if (!ec) accept_next();
  });
}

}  // namespace nodestage
