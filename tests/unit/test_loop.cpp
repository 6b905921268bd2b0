#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <vector>

#include "daemon/root/basis/loop.hpp"

using namespace nodestage;

namespace {

Loop new_loop() {
  auto loop = Loop::create();
  REQUIRE(loop);
  return std::move(*loop);
}

Fd ready_descriptor() { return Fd(::eventfd(1, EFD_CLOEXEC)); }

}  // namespace

TEST_CASE("timers that set themselves anew for now do not keep descriptors waiting") {
  Loop loop = new_loop();
  const Fd fd = ready_descriptor();
  int fired = 0;
  std::function<void()> again = [&] {
    if (++fired < 1000) loop.after({}, again);
  };
  loop.after({}, again);
  int fired_before = -1;
  REQUIRE(loop.watch(fd.get(), [&] {
    fired_before = fired;
    loop.stop();
  }));
  // Found ready in the second round at the latest.
  REQUIRE(loop.run());
  CHECK(fired_before >= 0);
  CHECK(fired_before <= 1);
}

TEST_CASE("a callback that stops the loop is the last one") {
  Loop loop = new_loop();
  int fired = 0;
  for (int i = 0; i < 3; ++i) {
    loop.after({}, [&] {
      ++fired;
      loop.stop();
    });
  }
  REQUIRE(loop.run());
  CHECK(fired == 1);
}

TEST_CASE("an event of a descriptor that was closed does not reach the next one of that number") {
  Loop loop = new_loop();
  Fd first = ready_descriptor();
  Fd second = ready_descriptor();
  std::vector<Fd> later;
  bool stale = false;
  // Whichever comes first closes the other and watches a new, silent one of its number.
  const auto replace = [&](Fd& other) {
    const int number = other.get();
    loop.forget(number);
    other.reset();
    Fd silent(::eventfd(0, EFD_CLOEXEC));
    REQUIRE(silent.get() == number);
    REQUIRE(loop.watch(number, [&] { stale = true; }));
    later.push_back(std::move(silent));
    loop.after(std::chrono::milliseconds(1), [&] { loop.stop(); });
  };
  REQUIRE(loop.watch(first.get(), [&] {
    if (later.empty()) replace(second);
  }));
  REQUIRE(loop.watch(second.get(), [&] {
    if (later.empty()) replace(first);
  }));
  REQUIRE(loop.run());
  CHECK_FALSE(stale);
}
