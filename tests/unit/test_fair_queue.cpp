#include <doctest/doctest.h>

#include "daemon/root/staging/staging_queue.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_alice = 1001;
constexpr std::uint32_t k_bob = 1002;
constexpr std::uint32_t k_carol = 1003;

// Starts all that wait, one at a time as if all places were free.
std::vector<std::uint32_t> drain(FairQueue queue, const std::map<std::uint32_t, std::uint32_t>& of,
                                 UserSlots places) {
  std::vector<std::uint32_t> order;
  while (const auto next = queue.next(places, 100)) {
    CHECK(queue.ahead_of(*next, places) == 0);
    order.push_back(next->job);
    ++places[of.at(next->job)];
    queue.erase(*next);
  }
  return order;
}

}  // namespace

TEST_CASE("the next is of the user with the fewest places, then the one that came first") {
  FairQueue queue;
  std::map<std::uint32_t, std::uint32_t> of;
  std::uint32_t number = 0;
  for (const std::uint32_t uid : {k_alice, k_alice, k_alice, k_bob, k_carol, k_bob}) {
    of[++number] = uid;
    queue.push({number, 0}, uid);
  }
  CHECK(drain(queue, of, {}) == std::vector<std::uint32_t>{1, 4, 5, 2, 6, 3});
  CHECK(drain(queue, of, {{k_alice, 2}}) == std::vector<std::uint32_t>{4, 5, 6, 1, 2, 3});
  CHECK(queue.ahead_of({3, 0}, {}) == 5);
  CHECK(queue.ahead_of({4, 0}, {}) == 1);
  CHECK(queue.ahead_of({4, 0}, {{k_alice, 2}}) == 0);
}

TEST_CASE("a user's limit leaves places to others") {
  FairQueue queue;
  queue.push({1, 0}, k_alice);
  CHECK_FALSE(queue.next({{k_alice, 1}}, 1));
  queue.push({2, 0}, k_bob);
  CHECK(queue.next({{k_alice, 1}}, 1) == JobKey{2, 0});
  CHECK(queue.next({{k_alice, 1}}, 2) == JobKey{2, 0});
  CHECK(queue.next({{k_alice, 1}, {k_bob, 1}}, 2) == JobKey{1, 0});
}
