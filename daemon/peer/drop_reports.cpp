#include "daemon/peer/drop_reports.hpp"

#include <chrono>

namespace nodestage {

void DropReports::report(const std::string& address, const std::string& why) {
  if (reported_ == 0 && unreported_ == 0) begin_second();
  const bool is_reported =
      reported_ < k_drops_a_second && channel_.offer(PeerDropped{address, why}) == Offered::taken;
  ++(is_reported ? reported_ : unreported_);
}

void DropReports::begin_second() {
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](const std::error_code& ec) {
    if (!ec) end_second();
  });
}

void DropReports::end_second() {
  reported_ = 0;
  if (unreported_ == 0) return;
  const PeerDropped more{"several addresses",
                         std::to_string(unreported_) + " more connections brought nothing of use"};
  if (channel_.offer(more) == Offered::taken) unreported_ = 0, reported_ = 1;
  begin_second();
}

}  // namespace nodestage
