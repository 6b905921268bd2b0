#include "daemon/peer/drop_reports.hpp"

#include <chrono>

namespace nodestage {

void DropReports::tell(const std::string& address, const std::string& why) {
  if (told_ == 0 && silent_ == 0) begin_second();
  const bool told =
      told_ < k_drops_a_second && channel_.offer(PeerDropped{address, why}) == Offered::taken;
  ++(told ? told_ : silent_);
}

void DropReports::begin_second() {
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](const std::error_code& ec) {
    if (!ec) end_second();
  });
}

void DropReports::end_second() {
  told_ = 0;
  if (silent_ == 0) return;
  const PeerDropped more{"several addresses",
                         std::to_string(silent_) + " more connections brought nothing of use"};
  if (channel_.offer(more) == Offered::taken) silent_ = 0, told_ = 1;
  begin_second();
}

}  // namespace nodestage
