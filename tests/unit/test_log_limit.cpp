#include <doctest/doctest.h>

#include "daemon/root/basis/log.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

constexpr LogLimit::Moment k_begin{1h};
constexpr std::size_t k_line = k_log_bytes_a_minute / 100;

// How many of `lines` lines are admitted.
int admitted(LogLimit& limit, uid_t user, Weight weight, int lines, LogLimit::Moment now) {
  int count = 0;
  for (int i = 0; i < lines; ++i)
    if (limit.ask(user, weight, k_line, now).is_admitted) ++count;
  return count;
}

}  // namespace

TEST_CASE("a user fills so much of the log in a minute, and another user as much") {
  LogLimit limit;
  CHECK(admitted(limit, 1000, Weight::light, 10'000, k_begin) == 100);
  CHECK(admitted(limit, 1000, Weight::light, 10'000, k_begin + 59s) == 0);
  CHECK(admitted(limit, 1001, Weight::light, 10'000, k_begin + 59s) == 100);
}

TEST_CASE("a flood of light lines leaves room for warnings") {
  LogLimit limit;
  CHECK(admitted(limit, 1000, Weight::light, 10'000, k_begin) == 100);
  CHECK(admitted(limit, 1000, Weight::heavy, 10, k_begin) == 10);
}

TEST_CASE("what was left out is reported once, by the first line of a later minute") {
  LogLimit limit;
  admitted(limit, 1000, Weight::light, 250, k_begin);
  // Other users come and go meanwhile.
  for (uid_t user = 2000; user < 2100; ++user)
    CHECK(limit.ask(user, Weight::light, 1, k_begin + 2min).left_out == 0);
  const auto next = limit.ask(1000, Weight::light, 1, k_begin + 3min);
  CHECK(next.is_admitted);
  CHECK(next.left_out == 150);
  CHECK(limit.ask(1000, Weight::light, 1, k_begin + 5min).left_out == 0);
}
