#include "daemon/worker/budget/meter.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace nodestage {

using std::chrono::duration;

void RateLimit::take(std::uint64_t bytes, const std::atomic<bool>& stop,
                     const std::atomic<bool>& given_up) {
  auto wait = owed(bytes);
  while (wait.count() > 0 && !stop && !given_up) {
    std::this_thread::sleep_for(std::min(wait, duration<double>(0.2)));
    wait = owed(0);
  }
}

double RateLimit::bytes_per_second() {
  const std::lock_guard lock(mutex_);
  read_rate(Clock::now());
  return rate_;
}

duration<double> RateLimit::owed(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  read_rate(now);
  if (rate_ <= 0) {
    tokens_ = 0;
    refilled_ = now;
    return {};
  }
  const double earned = rate_ * duration<double>(now - refilled_).count();
  // At most a quarter of a second may be saved up.
  tokens_ = std::min(tokens_ + earned, rate_ / 4) - static_cast<double>(bytes);
  refilled_ = now;
  return duration<double>(tokens_ < 0 ? -tokens_ / rate_ : 0);
}

void RateLimit::read_rate(Clock::time_point now) {
  if (now - rate_read_ < std::chrono::seconds(1)) return;
  std::uint64_t rate = 0;
  const ssize_t count = ::pread(fd_, &rate, sizeof rate, 0);
  rate_ = count == sizeof rate ? static_cast<double>(rate) : 0;
  rate_read_ = now;
}

}  // namespace nodestage
