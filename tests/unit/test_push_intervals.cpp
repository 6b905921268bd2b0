// Results that are delivered while their job runs, at intervals: when, and what is said of them.
// Without root and worker processes.
#include <doctest/doctest.h>

#include "push_site.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

TEST_CASE("the intervals begin within the first and go on") {
  RunningSite site({0, 900});
  CHECK(site.order() == nullptr);
  site.pass(900s);
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_items == 2);
  CHECK_FALSE(site.order()->push_all);
  site.finish();
  CHECK(site.order() == nullptr);
  site.pass(700s);
  CHECK(site.order() == nullptr);
  site.pass(201s);
  CHECK(site.finish_one());
}

TEST_CASE("an interval that is too short is raised") {
  PushSite site;
  site.config.stageout.least_interval_s = 600;
  site.run_job({1});
  site.pass(500s);
  CHECK(site.order() == nullptr);
  site.pass(101s);
  CHECK(site.finish_one());
}

TEST_CASE("what was asked for and is raised is told") {
  CHECK(raised_note({0, 60, 900}, 60).empty());
  CHECK(raised_note({}, 60).empty());
  CHECK(raised_note({15, 0, 30, 15, 60}, 60) ==
        "note: this site delivers results of a running job at most once in 1 min (every=15, "
        "every=30 was asked for)");
}

TEST_CASE("pushes at intervals that fail: one notice, and one when they succeed again") {
  RunningSite site({60});
  const auto fail = [&] {
    site.pass(61s);
    REQUIRE(site.order() != nullptr);
    site.workers.finish(WorkerTask::push, WorkerPhase::failed, "the quota is full\nadvice");
  };
  fail();
  CHECK(site.notice().find("the quota is full") != std::string::npos);
  fail();
  CHECK(site.notice().empty());
  site.pass(61s);
  site.finish();
  CHECK(site.notice().find("delivered again") != std::string::npos);
  site.pass(61s);
  site.finish();
  CHECK(site.notice().empty());
  CHECK(site.jobs->metrics().counters.pushes.results == std::array<std::uint64_t, 3>{2, 0, 2});
}

TEST_CASE("an output that succeeds says nothing of another that fails") {
  RunningSite site({60, 90});
  const auto push_one = [&](std::uint64_t item, ItemState state) {
    for (int i = 0; i < 100 && site.order() == nullptr; ++i) site.pass(1s);
    REQUIRE(site.order() != nullptr);
    REQUIRE(site.order()->push_items == item);
    const bool is_a = item == 1;
    site.finish(state == ItemState::failed ? WorkerPhase::failed : WorkerPhase::done,
                {output("a", is_a ? state : ItemState::skipped),
                 output("b", is_a ? ItemState::skipped : state)});
    return site.notice();
  };
  CHECK(push_one(1, ItemState::failed) != "");
  CHECK(push_one(2, ItemState::done) == "");
  CHECK(push_one(1, ItemState::failed) == "");
  CHECK(push_one(2, ItemState::done) == "");
  CHECK(push_one(1, ItemState::done).find("delivered again") != std::string::npos);
}

TEST_CASE("a restarted daemon goes on with the intervals, and with a job that has ended") {
  RunningSite site({60});
  site.push();
  site.start_daemon();  // the worker died with it
  CHECK(site.order() == nullptr);
  site.pass(61s);
  CHECK(site.finish_one());
  site.push();
  site.end(k_job);
  CHECK(site.state_of(k_job) == "stopping");
  site.start_daemon();
  CHECK(site.state_of(k_job) == "staging out");
}

TEST_CASE("nodes and jobs take turns within the interval, and none is late") {
  Begin begin{.node_count = 4};
  std::chrono::milliseconds last{-1};
  for (std::uint32_t i = 0; i < 4; ++i) {
    begin.node_index = i;
    const auto delay = first_delay(begin, 900s);
    CHECK(delay > last);
    CHECK(delay <= 900s);
    last = delay;
  }
  begin.node_count = 1;
  begin.node_index = k_no_number;
  for (begin.job = 1; begin.job < 200; ++begin.job) {
    CHECK(first_delay(begin, 900s) <= 900s);
    CHECK(first_delay(begin, 900s) >= 700s);
  }
  begin.job = 4711;
  const auto one = first_delay(begin, 900s);
  begin.job = 4712;
  CHECK(first_delay(begin, 900s) != one);
}

TEST_CASE("a daemon that is restarted often does not put off what is due") {
  RunningSite site({900});
  for (int i = 0; i < 8; ++i) {
    site.pass(120s);
    if (site.finish_one()) return;
    site.start_daemon();
  }
  FAIL("nothing was delivered in 16 minutes");
}

TEST_CASE("after a push that hangs in the kernel, the next one by interval comes an hour later") {
  RunningSite site({60});
  site.pass(61s);
  REQUIRE(site.order() != nullptr);
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::stuck, "hangs"}));
  site.notice();
  site.pass(1800s);
  CHECK(site.order() == nullptr);
  site.push();  // asked for
  CHECK(site.finish_one());
  site.notice();
  site.pass(1900s);
  CHECK(site.finish_one());
}

TEST_CASE("claims about intervals are bounded") {
  const PushTimes times({}, {0xffffffff}, 60, Clock::time_point{}, 0ms);
  REQUIRE(times.next());
  CHECK(*times.next() - Clock::time_point{} <= 31 * 24h);
}
