#include <doctest/doctest.h>

#include "daemon/root/jobs/time_limits.hpp"

using namespace nodestage;

namespace {

// 1 of 10 GiB after so many seconds.
Progress after(std::uint64_t seconds) {
  Progress progress;
  progress.phase = ProgressPhase::staging;
  progress.bytes_read = 1ULL << 30;
  progress.bytes_total = 10ULL << 30;
  progress.elapsed_ms = 1000 * seconds;
  return progress;
}

}  // namespace

TEST_CASE("how long a staging will take is known once it has run for a moment") {
  CHECK(seconds_left(after(10)) == 90U);
  CHECK(seconds_left(after(400)) == 3600U);
  CHECK_FALSE(seconds_left(after(4)));  // too early
  CHECK(seconds_left(after(6)) == 54U);
  Progress progress = after(100);
  progress.bytes_total = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.bytes_read = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.phase = ProgressPhase::others;
  CHECK_FALSE(seconds_left(progress));
}
