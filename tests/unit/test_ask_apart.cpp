#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "common/os/child.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

TEST_CASE("an answer in time comes whole, and an empty one is an answer") {
  CHECK(ask_apart(20s, [] { return std::string("two\nlines"); }) == "two\nlines");
  CHECK(ask_apart(20s, [] { return std::string(); }) == "");
  CHECK(ask_apart(20s, [] { return std::string(60'000, 'x'); }) == std::string(60'000, 'x'));
}

TEST_CASE("a question that hangs costs the limit, and holds nothing of this process") {
  auto held = make_pipe();
  REQUIRE(held);
  const auto begun = std::chrono::steady_clock::now();
  const auto hang = [] {
    ::sleep(20);
    return std::string("late");
  };
  CHECK_FALSE(ask_apart(50ms, hang));
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  held->write = Fd();
  char byte = 0;
  CHECK(::read(held->read.get(), &byte, 1) == 0);  // would wait for whoever holds the other end
}
