#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "daemon/root/shares/space_allocator.hpp"
#include "tests/unit/sizes.hpp"

using namespace nodestage;

namespace {

constexpr JobKey k_first{1, 0};
constexpr JobKey k_second{2, 0};
constexpr JobKey k_third{3, 0};
constexpr uid_t k_alice_uid = 1000;
constexpr uid_t k_bob_uid = 1001;
constexpr std::uint64_t k_little = 256ULL << 20;  // what a job is promised in any case
constexpr std::chrono::minutes k_lately{5};
constexpr Clock::time_point k_ledger_start{std::chrono::hours(1)};

SpaceClaim claim_of(std::uint64_t serial, std::uint64_t bytes, std::uint64_t written = 0) {
  return {serial, {bytes, 1}, {bytes, 1}, {written, 0}, 0};
}

// A user's share is all there is, unless a test says otherwise.
SpaceLedger::Terms terms_of(std::uint64_t free, std::uint64_t share = 100,
                            std::chrono::minutes after = {}) {
  return {{free, 100'000}, 0, share, k_lately, k_ledger_start + after};
}

// As the daemon does it.
bool ask(SpaceLedger& ledger, const JobKey& job, const SpaceClaim& claim,
         const SpaceLedger::Terms& terms) {
  if (!ledger.note(job, claim)) return false;
  const SpaceAnswer answer = ledger.answer(job, terms);
  ledger.book(job, answer);
  return answer.granted == 1;
}

bool ask(SpaceLedger& ledger, const JobKey& job, const SpaceClaim& claim, std::uint64_t free) {
  return ask(ledger, job, claim, terms_of(free));
}

void review(SpaceLedger& ledger, const JobKey& job, const SpaceLedger::Terms& terms) {
  if (const auto answer = ledger.review(job, terms)) ledger.book(job, *answer);
}

}  // namespace

TEST_CASE("what one job was promised another does not get") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_bob_uid, 1, k_ledger_start);
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ask(ledger, k_second, claim_of(1, 41), 100));
  const SpaceAnswer answer = ledger.answer(k_second, terms_of(100));
  CHECK(answer.promised.bytes == 60);
  CHECK(answer.others == 1);
  CHECK(ask(ledger, k_second, claim_of(2, 40), 100));
}

TEST_CASE("what is written is no longer promised, as it is no longer free") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_bob_uid, 1, k_ledger_start);
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ledger.note(k_first, claim_of(1, 60, 50)));
  CHECK(ledger.promised_to(k_first).bytes == 10);
  CHECK(ask(ledger, k_second, claim_of(1, 40), 50));
}

TEST_CASE("an end, and a need that goes down, give the room to others") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_bob_uid, 1, k_ledger_start);
  CHECK(ask(ledger, k_first, claim_of(1, 100), 100));
  SUBCASE("end") { ledger.close(k_first); }
  SUBCASE("correction") { ledger.note(k_first, {1, {30, 1}, {}, {}, 0}); }
  CHECK(ask(ledger, k_second, claim_of(1, 70), 100));
}

TEST_CASE("other file systems are another matter") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_bob_uid, 2, k_ledger_start);
  CHECK(ask(ledger, k_first, claim_of(1, 100), 100));
  CHECK(ask(ledger, k_second, claim_of(1, 100), 100));
}

TEST_CASE("a restarted daemon knows the promises, from its last answers") {
  SpaceLedger before;
  before.open(k_first, k_alice_uid, 1, k_ledger_start);
  before.note(k_first, claim_of(3, 60, 20));
  const SpaceAnswer last = before.answer(k_first, terms_of(100));
  SpaceLedger after;
  after.open(k_first, k_alice_uid, 1, k_ledger_start, last);
  CHECK(after.promised_to(k_first).bytes == 40);
  CHECK_FALSE(after.note(k_first, claim_of(3, 60, 30)));
  CHECK(after.promised_to(k_first).bytes == 30);
  CHECK(after.note(k_first, claim_of(4, 70, 30)));
}

TEST_CASE("one user's jobs are promised their share of what others leave, however many they are") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_third, k_bob_uid, 1, k_ledger_start);
  const auto disk = terms_of(80 * k_gib, 50);
  CHECK(ask(ledger, k_first, claim_of(1, 70 * k_gib), disk));
  CHECK(ledger.promised_to(k_first).bytes == 40 * k_gib);
  CHECK(ask(ledger, k_second, claim_of(1, 40 * k_gib), disk));
  CHECK(ledger.promised_to(k_second).bytes == k_little);
  CHECK(ask(ledger, k_third, claim_of(1, 30 * k_gib), disk));
  CHECK(ledger.promised_to(k_third).bytes == 20 * k_gib - k_little / 2);
}

TEST_CASE("a large archive on an idle disk is admitted, and the rest is promised while it comes") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  REQUIRE(ask(ledger, k_first, claim_of(1, 70 * k_gib), terms_of(80 * k_gib, 50)));
  std::uint64_t written = 0;
  for (int minute = 1; minute <= 20; ++minute) {
    const std::uint64_t most = ledger.promised_to(k_first).bytes;
    written += std::min<std::uint64_t>(most, 4 * k_gib);
    ledger.note(k_first, claim_of(1, 70 * k_gib, written));
    review(ledger, k_first, terms_of(80 * k_gib - written, 50, std::chrono::minutes(minute)));
  }
  CHECK(written == 70 * k_gib);
}

TEST_CASE("a job that writes little is promised little once its first minutes are over") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  ledger.open(k_second, k_bob_uid, 1, k_ledger_start);
  REQUIRE(ask(ledger, k_first, claim_of(1, 70 * k_gib), terms_of(80 * k_gib)));
  ledger.note(k_first, claim_of(1, 70 * k_gib, k_gib));
  review(ledger, k_first, terms_of(79 * k_gib, 100, k_lately - std::chrono::minutes(1)));
  CHECK(ledger.promised_to(k_first).bytes == 69 * k_gib);
  CHECK_FALSE(ask(ledger, k_second, claim_of(1, 60 * k_gib), terms_of(79 * k_gib)));
  SUBCASE("as much as it has written lately") {
    review(ledger, k_first, terms_of(79 * k_gib, 100, k_lately));
    CHECK(ledger.promised_to(k_first).bytes == k_gib);
    review(ledger, k_first, terms_of(79 * k_gib, 100, 2 * k_lately));
    CHECK(ledger.promised_to(k_first).bytes == k_little);
    CHECK(ask(ledger, k_second, claim_of(2, 60 * k_gib), terms_of(79 * k_gib)));
  }
  SUBCASE("it is given more again when it writes more") {
    review(ledger, k_first, terms_of(79 * k_gib, 100, k_lately));
    review(ledger, k_first, terms_of(79 * k_gib, 100, 2 * k_lately));
    ledger.note(k_first, claim_of(1, 70 * k_gib, 6 * k_gib));
    review(ledger, k_first, terms_of(74 * k_gib, 100, 2 * k_lately + std::chrono::minutes(1)));
    CHECK(ledger.promised_to(k_first).bytes == 5 * k_gib);
  }
}

TEST_CASE("a review gives nothing to a job whose claim has no answer yet") {
  SpaceLedger ledger;
  ledger.open(k_first, k_alice_uid, 1, k_ledger_start);
  REQUIRE(ask(ledger, k_first, claim_of(1, 10 * k_gib), terms_of(80 * k_gib)));
  REQUIRE(ledger.note(k_first, claim_of(2, 90 * k_gib)));
  review(ledger, k_first, terms_of(80 * k_gib, 100, std::chrono::minutes(1)));
  CHECK(ledger.promised_to(k_first).bytes == 10 * k_gib);
  ledger.book(k_first, ledger.answer(k_first, terms_of(80 * k_gib)));  // a refusal
  review(ledger, k_first, terms_of(80 * k_gib, 100, std::chrono::minutes(2)));
  CHECK(ledger.promised_to(k_first).bytes == 10 * k_gib);
}
