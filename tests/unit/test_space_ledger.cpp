#include <doctest/doctest.h>

#include "daemon/root/tasks/space_ledger.hpp"

using namespace nodestage;

namespace {

constexpr JobKey k_first{1, 0};
constexpr JobKey k_second{2, 0};

SpaceClaim claim_of(std::uint64_t serial, std::uint64_t bytes, std::uint64_t written = 0) {
  return {serial, {bytes, 1}, {bytes, 1}, {written, 0}, 0};
}

// As the daemon does it.
bool ask(SpaceLedger& ledger, const JobKey& job, const SpaceClaim& claim, std::uint64_t free) {
  if (!ledger.note(job, claim)) return false;
  const SpaceAnswer answer = ledger.answer(job, {free, 1000}, 0);
  ledger.book(job, answer);
  return answer.granted == 1;
}

}  // namespace

TEST_CASE("what one job was promised another does not get") {
  SpaceLedger ledger;
  ledger.open(k_first, 1);
  ledger.open(k_second, 1);
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ask(ledger, k_second, claim_of(1, 41), 100));
  const SpaceAnswer answer = ledger.answer(k_second, {100, 1000}, 0);
  CHECK(answer.promised.bytes == 60);
  CHECK(answer.others == 1);
  CHECK(ask(ledger, k_second, claim_of(2, 40), 100));
}

TEST_CASE("what is written is no longer promised, as it is no longer free") {
  SpaceLedger ledger;
  ledger.open(k_first, 1);
  ledger.open(k_second, 1);
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ledger.note(k_first, claim_of(1, 60, 50)));
  CHECK(ledger.promised_to(k_first).bytes == 10);
  CHECK(ask(ledger, k_second, claim_of(1, 40), 50));
}

TEST_CASE("an end, and a need that goes down, give the room to others") {
  SpaceLedger ledger;
  ledger.open(k_first, 1);
  ledger.open(k_second, 1);
  CHECK(ask(ledger, k_first, claim_of(1, 100), 100));
  SUBCASE("end") { ledger.close(k_first); }
  SUBCASE("correction") { ledger.note(k_first, {1, {30, 1}, {}, {}, 0}); }
  CHECK(ask(ledger, k_second, claim_of(1, 70), 100));
}

TEST_CASE("other file systems are another matter") {
  SpaceLedger ledger;
  ledger.open(k_first, 1);
  ledger.open(k_second, 2);
  CHECK(ask(ledger, k_first, claim_of(1, 100), 100));
  CHECK(ask(ledger, k_second, claim_of(1, 100), 100));
}

TEST_CASE("a restarted daemon knows the promises, from its last answers") {
  SpaceLedger before;
  before.open(k_first, 1);
  before.note(k_first, claim_of(3, 60, 20));
  const SpaceAnswer last = before.answer(k_first, {100, 1000}, 0);
  SpaceLedger after;
  after.open(k_first, 1, last);
  CHECK(after.promised_to(k_first).bytes == 40);
  CHECK_FALSE(after.note(k_first, claim_of(3, 60, 30)));
  CHECK(after.promised_to(k_first).bytes == 30);
  CHECK(after.note(k_first, claim_of(4, 70, 30)));
}
