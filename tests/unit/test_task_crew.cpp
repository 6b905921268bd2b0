#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

#include "daemon/worker/basis/task_crew.hpp"

using namespace nodestage;

using Tasks = TaskCrew::Tasks;

TEST_CASE("tasks that lead to more tasks are all run") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    TaskCrew crew({threads, threads});
    std::atomic<unsigned> count = 0;
    std::function<Status(unsigned, unsigned)> grow = [&](unsigned level, unsigned thread) {
      ++count;
      CHECK(thread < threads);
      if (level == 0) return Status();
      const TaskCrew::Task next = [&grow, level](unsigned at) { return grow(level - 1, at); };
      crew.add(thread, {next, next, next});
      return Status();
    };
    CHECK(crew.run({[&](unsigned thread) { return grow(7, thread); }}));
    CHECK(count == 3280);  // 1 + 3 + … + 3^7
    CHECK_FALSE(crew.has_failed());
  }
}

TEST_CASE("one thread takes the newest task first") {
  TaskCrew crew({1, 1});
  std::string order;
  const auto note = [&](char name) {
    return [&order, name](unsigned) {
      order += name;
      return Status();
    };
  };
  CHECK(crew.run({note('z'), [&](unsigned thread) {
                    crew.add(thread, {note('c'), note('b'), note('a')});
                    return Status();
                  }}));
  CHECK(order == "abcz");
}

TEST_CASE("a thread without tasks takes the oldest of another's") {
  TaskCrew crew({2, 2});
  std::atomic<bool> is_taken = false;
  const auto block = [&](unsigned) {
    is_taken.wait(false);
    return Status();
  };
  const auto free = [&](unsigned) {
    is_taken = true;
    is_taken.notify_all();
    return Status();
  };
  // While the first waits, only the second thread can run what lets it go on.
  CHECK(crew.run({free, block}));
  CHECK(crew.threads() == 2);
}

TEST_CASE("a fault ends a crew, and what was not begun is dropped") {
  for (const unsigned threads : {1U, 3U}) {
    TaskCrew crew({threads, threads});
    std::atomic<bool> is_over = false;
    Tasks many(1000, [&](unsigned) {
      is_over.wait(false);  // no thread runs more than one of these before the fault
      return Status();
    });
    many.back() = [&](unsigned) {
      is_over = true;
      is_over.notify_all();
      return Status(Error{1, "first"});
    };
    const Status done = crew.run(std::move(many));
    REQUIRE_FALSE(done);
    CHECK(done.error().text() == "first");
    CHECK(crew.has_failed());
  }
}

TEST_CASE("an exception in a task is a fault") {
  TaskCrew crew({2, 4});
  const Status done = crew.run({[](unsigned) -> Status { throw std::runtime_error("no memory"); }});
  REQUIRE_FALSE(done);
  CHECK(done.error().text() == "no memory");
}
