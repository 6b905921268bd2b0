// Attack: code that runs with the user's rights writes the space claims of its status file: any
// need, any sum written, at any time. It must not come to more than what was truly free when it was
// admitted, take nothing from what others were promised, and stop no arithmetic.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/shares/space_allocator.hpp"
#include "mutations.hpp"

using namespace nodestage;

namespace {

constexpr JobKey k_victim{1, 0};
constexpr JobKey k_attacker{2, 0};
const SpaceLedger::Terms k_terms{{1000, 1000}, 100};  // free, and of that left free

// The victim has been promised 400 of 1000.
SpaceLedger ledger_with_victim() {
  SpaceLedger ledger;
  ledger.open(k_victim, 1001, 1, {});
  ledger.open(k_attacker, 1002, 1, {});
  ledger.note(k_victim, {1, {400, 4}, {400, 4}, {}, 0});
  ledger.book(k_victim, ledger.answer(k_victim, k_terms));
  return ledger;
}

SpaceAnswer claim(SpaceLedger& ledger, const SpaceClaim& claim) {
  if (!ledger.note(k_attacker, claim)) return {};
  const SpaceAnswer answer = ledger.answer(k_attacker, k_terms);
  ledger.book(k_attacker, answer);
  return answer;
}

}  // namespace

TEST_CASE("a need beyond all measure is refused, or admitted as far as there is room") {
  SpaceLedger ledger = ledger_with_victim();
  CHECK(claim(ledger, {1, {k_no_limit, 1}, {k_no_limit, 1}, {}, 0}).granted == 0);
  CHECK(ledger.promised_to(k_attacker) == Amount{});
  const auto answer = claim(ledger, {2, {k_no_limit, k_no_limit}, {}, {}, 0});
  CHECK(answer.admitted == Amount{250, 498});
  CHECK(ledger.promised_to(k_victim).bytes == 400);
}

TEST_CASE("what was said to be written cannot be taken back, to be promised again") {
  SpaceLedger ledger = ledger_with_victim();
  claim(ledger, {1, {500, 1}, {}, {}, 0});
  // As if all of it were written, and so more could be had; then as if it never was.
  claim(ledger, {2, {1000, 1}, {}, {500, 0}, 0});
  claim(ledger, {3, {1500, 1}, {}, {1000, 0}, 0});
  ledger.note(k_attacker, {3, {1500, 1}, {}, {0, 0}, 0});
  CHECK(ledger.promised_to(k_attacker).bytes <= 500);
}

TEST_CASE("a need that changes without being asked for promises nothing") {
  SpaceLedger ledger = ledger_with_victim();
  claim(ledger, {1, {10, 1}, {10, 1}, {}, 0});
  CHECK_FALSE(ledger.note(k_attacker, {1, {k_no_limit, 9}, {k_no_limit, 9}, {}, 0}));
  CHECK(ledger.promised_to(k_attacker) == Amount{10, 1});
}

TEST_CASE("whatever is claimed, promises stay within the disk, and the victim's is kept") {
  Mutations random(7, {"x"});
  const auto number = [&random]() -> std::uint64_t {
    constexpr std::uint64_t k_odd[] = {
        0, 1, 400, 1000, 1ULL << 32, 1ULL << 62, 1ULL << 63, k_no_limit - 1, k_no_limit};
    return k_odd[random.below(std::size(k_odd))];
  };
  SpaceLedger ledger = ledger_with_victim();
  for (int round = 0; round < 10'000; ++round) {
    const Fd fd(::memfd_create("status", MFD_CLOEXEC));
    const SpaceClaim wild{number(), {number(), number()}, {number(), number()}, {}, 0};
    REQUIRE(write_space_written(fd.get(), {number(), number()}));
    REQUIRE(write_space_claim(fd.get(), wild));
    claim(ledger, *read_space_claim(fd.get()));
    CHECK(fits(ledger.promised_to(k_attacker), {500, 996}));
    CHECK(ledger.promised_to(k_victim) == Amount{400, 4});
  }
}
