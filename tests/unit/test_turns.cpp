#include <doctest/doctest.h>

#include <vector>

#include "daemon/root/table/records.hpp"

using namespace nodestage;

namespace {

struct TurnsSite {
  Loop loop = std::move(*Loop::create());
  Turns turns{loop, 2};
  std::vector<std::uint32_t> begun;

  void ask(std::uint32_t uid, std::uint32_t job, Turns::Begun answer = Turns::Begun::yes) {
    turns.ask(uid, {job, 0}, [this, job, answer] {
      begun.push_back(job);
      return answer;
    });
  }
  void end(std::uint32_t uid, std::uint32_t job) { turns.end(uid, {job, 0}); }
};

using JobNumbers = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("each user has so many at once, and the next in order when one ends") {
  TurnsSite site;
  for (std::uint32_t job = 1; job <= 4; ++job) site.ask(1, job);
  site.ask(2, 5);
  CHECK(site.begun == JobNumbers{1, 2, 5});
  CHECK(site.turns.is_waiting(1, {3, 0}));
  CHECK_FALSE(site.turns.is_waiting(1, {2, 0}));
  site.end(1, 2);
  CHECK(site.begun == JobNumbers{1, 2, 5, 3});
  site.end(1, 2);  // not at work
  site.end(3, 1);
  CHECK(site.begun == JobNumbers{1, 2, 5, 3});
}

TEST_CASE("who waits or works is not asked for twice, and may come again") {
  TurnsSite site;
  site.ask(1, 1);
  site.ask(1, 1);
  CHECK(site.begun == JobNumbers{1});
  site.end(1, 1);
  site.ask(1, 1);
  CHECK(site.begun == JobNumbers{1, 1});
}

TEST_CASE("who leaves the queue gets no turn") {
  TurnsSite site;
  for (std::uint32_t job = 1; job <= 4; ++job) site.ask(1, job);
  CHECK(site.turns.leave(1, {3, 0}));
  CHECK_FALSE(site.turns.leave(1, {3, 0}));
  CHECK_FALSE(site.turns.leave(1, {1, 0}));  // at work
  CHECK_FALSE(site.turns.leave(2, {1, 0}));
  site.end(1, 1);
  CHECK(site.begun == JobNumbers{1, 2, 4});
}

TEST_CASE("what has nothing to do takes no place") {
  TurnsSite site;
  site.ask(1, 1, Turns::Begun::no);
  site.ask(1, 2);
  site.ask(1, 3);
  site.ask(1, 4, Turns::Begun::no);
  site.ask(1, 5);
  site.end(1, 2);
  CHECK(site.begun == JobNumbers{1, 2, 3, 4, 5});
}

TEST_CASE("where one cannot be begun the others are not tried at once") {
  TurnsSite site;
  site.ask(1, 1, Turns::Begun::failed);
  for (std::uint32_t job = 2; job <= 4; ++job) site.ask(1, job, Turns::Begun::failed);
  site.ask(2, 9);
  CHECK(site.begun == JobNumbers{1, 9});
  // One more each time.
  site.loop.after(std::chrono::milliseconds(1500), [&] { site.loop.stop(); });
  REQUIRE(site.loop.run());
  CHECK(site.begun == JobNumbers{1, 9, 2});
}

TEST_CASE("work that ends before its beginning was told of is no deeper call") {
  Loop loop = std::move(*Loop::create());
  Turns turns(loop, 1);
  int begun = 0;
  turns.ask(1, {1, 0}, [&] {
    for (std::uint32_t job = 2; job < 100'000; ++job) {
      turns.ask(1, {job, 0}, [&, job] {
        ++begun;
        turns.end(1, {job, 0});
        return Turns::Begun::no;
      });
    }
    return Turns::Begun::no;
  });
  CHECK(begun == 99'998);
}
