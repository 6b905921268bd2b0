// DropReports: reports connections that brought nothing of use, at most k_drops_a_second. Anybody
// on the network can cause such connections, so further ones are only counted, and the count is
// reported.
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

  void report(const std::string& address, const std::string& why);

 private:
  void begin_second();
  void end_second();

  asio::steady_timer timer_;  // runs while reported_ or unreported_ is not 0
  Channel& channel_;
  std::uint64_t reported_ = 0;
  std::uint64_t unreported_ = 0;
};

}  // namespace nodestage
