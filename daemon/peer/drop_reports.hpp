// DropReports: tells the daemon of connections that brought nothing of use, so many a second at
// most. Anybody on the network can cause them: what is beyond that is counted, and the count told.
#pragma once

#include <asio/steady_timer.hpp>
#include <cstdint>
#include <string>

#include "daemon/peer/channel.hpp"

namespace nodestage {

inline constexpr unsigned k_drops_a_second = 50;

class DropReports {
 public:
  DropReports(asio::io_context& io, Channel& channel) : timer_(io), channel_(channel) {}

  void tell(const std::string& address, const std::string& why);

 private:
  void begin_second();
  void end_second();

  asio::steady_timer timer_;  // runs while told_ or silent_ is not 0
  Channel& channel_;
  std::uint64_t told_ = 0;
  std::uint64_t silent_ = 0;
};

}  // namespace nodestage
