#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "daemon/worker/budget/meter.hpp"

using namespace nodestage;

namespace {

Fd rate_file(std::uint64_t rate) {
  Fd fd(::memfd_create("rate", MFD_CLOEXEC));
  REQUIRE(::pwrite(fd.get(), &rate, sizeof rate, 0) == sizeof rate);
  return fd;
}

const std::atomic<bool> never_stopped = false;

double seconds(RateLimit& limit, std::uint64_t bytes, const std::atomic<bool>& stop) {
  const auto before = std::chrono::steady_clock::now();
  limit.take(bytes, stop, never_stopped);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

}  // namespace

TEST_CASE("what was read beyond the rate is waited for") {
  const Fd fd = rate_file(10'000'000);
  RateLimit limit(fd.get());
  limit.take(2'500'000, never_stopped, never_stopped);  // saved up
  CHECK(seconds(limit, 1'000'000, never_stopped) > 0.05);
}

TEST_CASE("no rate, no file, and a stop: no wait") {
  const Fd none = rate_file(0);
  const Fd slow = rate_file(1);
  std::atomic<bool> stop = false;
  RateLimit unlimited(none.get());
  RateLimit absent(-1);
  CHECK(seconds(unlimited, 1ULL << 50, stop) < 100);  // not for years
  CHECK(seconds(absent, 1ULL << 50, stop) < 100);     // not for years
  stop = true;
  RateLimit stopped(slow.get());
  CHECK(seconds(stopped, 1ULL << 50, stop) < 100);  // not for years
  RateLimit given_up(slow.get());
  given_up.take(1ULL << 50, never_stopped, stop);  // returns
}
