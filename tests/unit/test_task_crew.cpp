#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

#include "daemon/worker/basis/task_crew.hpp"

using namespace nodestage;

namespace {

using Action = std::function<Status(unsigned)>;

class CrewAct final : public TaskCrew::Task {
 public:
  explicit CrewAct(Action action) : action_(std::move(action)) {}
  Status run(unsigned thread) override { return action_(thread); }

 private:
  const Action action_;
};

TaskCrew::Tasks tasks(const std::vector<Action>& actions) {
  TaskCrew::Tasks made;
  for (const auto& action : actions) made.push_back(std::make_unique<CrewAct>(action));
  return made;
}

}  // namespace

TEST_CASE("tasks that lead to more tasks are all run") {
  for (const unsigned threads : {1U, 2U, 7U}) {
    TaskCrew crew({threads, threads});
    std::atomic<unsigned> count = 0;
    std::function<Status(unsigned, unsigned)> grow = [&](unsigned level, unsigned thread) {
      ++count;
      CHECK(thread < threads);
      if (level == 0) return Status();
      const Action next = [&grow, level](unsigned at) { return grow(level - 1, at); };
      crew.add(thread, tasks({next, next, next}));
      return Status();
    };
    CHECK(crew.run(tasks({[&](unsigned thread) { return grow(7, thread); }})));
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
  CHECK(crew.run(tasks({note('z'), [&](unsigned thread) {
                          crew.add(thread, tasks({note('c'), note('b'), note('a')}));
                          return Status();
                        }})));
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
  CHECK(crew.run(tasks({free, block})));
  CHECK(crew.threads() == 2);
}

TEST_CASE("a fault ends a crew, and what was not begun is dropped") {
  for (const unsigned threads : {1U, 3U}) {
    TaskCrew crew({threads, threads});
    std::atomic<bool> is_over = false;
    std::vector<Action> many(1000, [&](unsigned) {
      is_over.wait(false);  // no thread runs more than one of these before the fault
      return Status();
    });
    many.back() = [&](unsigned) {
      is_over = true;
      is_over.notify_all();
      return Status(Error{1, "first"});
    };
    const Status done = crew.run(tasks(many));
    REQUIRE_FALSE(done);
    CHECK(done.error().text() == "first");
    CHECK(crew.has_failed());
  }
}

TEST_CASE("an exception in a task is a fault") {
  TaskCrew crew({2, 4});
  const Status done =
      crew.run(tasks({[](unsigned) -> Status { throw std::runtime_error("no memory"); }}));
  REQUIRE_FALSE(done);
  CHECK(done.error().text() == "no memory");
}
