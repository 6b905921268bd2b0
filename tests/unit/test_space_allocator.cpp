// How workers are promised space on the disk, through the files that they and the daemon share.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "daemon/root/shares/space_allocator.hpp"
#include "scratch.hpp"
#include "sizes.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr JobKey k_claiming_job{1, 0};
constexpr JobKey k_other_job{2, 0};
constexpr Amount k_little_amount{4096, 1};
constexpr Amount k_too_much{k_no_limit / 2, 1};

struct AllocatorSite {
  Scratch scratch;
  Config config;
  Result<Loop> loop = Loop::create();
  Result<Areas> areas = Areas::open(scratch / "");
  std::optional<SpaceAllocator> allocator;
  std::map<JobKey, Fd> answers;
  int unused = 0;  // how often room can be made
  Amount unused_amount;
  SpaceAllocator::Unused kept{[this](int) { return unused_amount; },
                              [this] { return unused > 0 && unused-- > 0; }};

  AllocatorSite() {
    spdlog::set_level(spdlog::level::off);
    REQUIRE(areas);
    config.staging.trash_wait_s = 3600;
    allocator.emplace(*loop, config, *areas, kept);
    open(k_claiming_job);
  }
  void open(const JobKey& job) {
    auto file = must(allocator->make_answer_file(job));
    answers.insert_or_assign(job, std::move(file));
    Subject subject{.uid = 1000 + job.job};
    allocator->open(job, subject,
                    Fd(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }
  // As the worker's status file says it.
  void claim(std::uint64_t serial, const Amount& need, const JobKey& job = k_claiming_job,
             std::uint64_t with_spare = 0) const {
    const auto file = must(areas->open_status(job, "stage", O_RDWR | O_CREAT));
    REQUIRE(write_space_written(file.get(), {}));
    REQUIRE(write_space_claim(file.get(), {serial, need, need, {}, with_spare}));
  }
  // Nothing when none has come after so many turns of the allocator.
  std::optional<SpaceAnswer> answer(std::uint64_t serial, int turns = 100,
                                    const JobKey& job = k_claiming_job) {
    std::optional<SpaceAnswer> last;
    std::function<void()> look = [&] {
      const auto read = read_space_answer(answers.at(job).get());
      if (read && read->serial == serial) last = *read;
      if (last || turns-- == 0) return loop->stop();
      loop->after(std::chrono::milliseconds(60), look);
    };
    loop->after(std::chrono::milliseconds(60), look);
    REQUIRE(loop->run());
    return last;
  }
  // Whether the claim is granted; it must be answered.
  bool is_granted(std::uint64_t serial, const JobKey& job = k_claiming_job) {
    return must(answer(serial, 100, job)).granted == 1;
  }
};

}  // namespace

TEST_CASE("a claim that fits is admitted, and promised until the worker exits") {
  if (skipped_without_root()) return;
  AllocatorSite site;
  CHECK_FALSE(site.answer(1, 2));  // nothing was asked for
  site.claim(1, k_little_amount);
  const auto answer = must(site.answer(1));
  CHECK(answer.granted == 1);
  CHECK(fits(k_little_amount, answer.admitted));
  CHECK(site.allocator->promised_to(k_claiming_job) == k_little_amount);
  CHECK_FALSE(site.allocator->close(k_claiming_job));
  CHECK(site.allocator->promised_to(k_claiming_job) == Amount{});
}

TEST_CASE("a claim beyond the disk is refused, and close() reports it once") {
  if (skipped_without_root()) return;
  AllocatorSite site;
  site.claim(1, k_too_much);
  CHECK_FALSE(site.is_granted(1));
  CHECK(site.allocator->promised_to(k_claiming_job) == Amount{});
  CHECK(site.allocator->close(k_claiming_job));
  CHECK_FALSE(site.allocator->close(k_claiming_job));
}

TEST_CASE("while trash is being removed no claim is refused, and then each is answered") {
  if (skipped_without_root()) return;
  AllocatorSite site;
  REQUIRE(site.areas->make_directory("old", 1000, 1000));
  REQUIRE(site.areas->move_to_trash("old", 1000, 1000));
  const auto trash = site.areas->take_new_trash();
  REQUIRE(trash.size() == 1);
  site.claim(1, k_too_much);
  CHECK_FALSE(site.answer(1, 3));
  REQUIRE(site.areas->remove_trash(trash[0]));
  CHECK_FALSE(site.is_granted(1));
}

TEST_CASE("unused data are removed only for a claim that could fit without them, and then all") {
  if (skipped_without_root()) return;
  struct Case {
    const char* name;
    bool is_large;        // as the whole disk, beside which other data lie
    bool is_disk_unused;  // or a few bytes alone
    int left;
  };
  for (const Case& one : {Case{"it fits as it is", false, false, 3},
                          Case{"it does not fit without them either", true, false, 3},
                          Case{"it could fit without them", true, true, 0}}) {
    CAPTURE(one.name);
    AllocatorSite site;
    site.unused = 3;
    site.config.staging.leave_free_bytes = 0;
    struct statvfs disk {};
    REQUIRE(::statvfs(site.scratch.path().c_str(), &disk) == 0);
    const std::uint64_t size = std::uint64_t{disk.f_blocks} * disk.f_frsize;
    site.unused_amount = {one.is_disk_unused ? size : 4096, 1};
    site.claim(1, one.is_large ? Amount{size - 1, 1} : k_little_amount);
    CHECK(site.is_granted(1) == !one.is_large);
    CHECK(site.unused == one.left);
  }
}

TEST_CASE("another daemon's allocator knows what was admitted") {
  if (skipped_without_root()) return;
  AllocatorSite site;
  site.claim(1, k_little_amount);
  REQUIRE(site.answer(1));
  SpaceAllocator next(*site.loop, site.config, *site.areas, site.kept);
  next.open(k_claiming_job, {}, Fd(::open(site.scratch.path().c_str(), O_RDONLY | O_CLOEXEC)));
  CHECK(next.promised_to(k_claiming_job) == k_little_amount);
}

namespace {

// One job was promised most of the disk; the other's claim needs as much.
struct Promised : AllocatorSite {
  Promised() {
    config.staging.leave_free_bytes = 0;
    config.staging.promise_share_percent = 100;
    config.staging.space_wait_s = 3600;
    config.staging.promise_time_s = 600;
    open(k_other_job);
    const Fd disk(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    need = {free_on(disk.get()).bytes / 10 * 7, 1};
    claim(1, need);
    REQUIRE(must(answer(1)).granted == 1);
  }
  bool waits() { return !answer(1, 3, k_other_job) && !allocator->lack_of(k_other_job).empty(); }

  Amount need;
};

}  // namespace

TEST_CASE("a claim that lacks what others were promised waits, and says so") {
  if (skipped_without_root()) return;
  Promised site;
  site.claim(1, site.need, k_other_job);
  REQUIRE(site.waits());
  CHECK(site.allocator->lack_of(k_other_job)
            .ends_with(" of local disk, promised to other jobs that stage "
                       "here"));
  CHECK(site.allocator->lack_of(k_claiming_job).empty());
  SUBCASE("until they have ended") {
    site.allocator->close(k_claiming_job);
    CHECK(site.is_granted(1, k_other_job));
  }
  SUBCASE("until they lose it, since they write nothing") {
    site.loop->advance(std::chrono::seconds(601));
    CHECK(site.is_granted(1, k_other_job));
    CHECK(site.allocator->promised_to(k_claiming_job).bytes < k_gib);
    const auto others = must(read_space_answer(site.answers.at(k_claiming_job).get()));
    CHECK(others.admitted == site.allocator->promised_to(k_claiming_job));
  }
  SUBCASE("and not for longer than the site lets it") {
    site.config.staging.promise_time_s = 86'400;
    site.loop->advance(std::chrono::seconds(3601));
    const auto answer = must(site.answer(1, 100, k_other_job));
    CHECK(answer.granted == 0);
    CHECK(answer.others == 1);
  }
  CHECK(site.allocator->lack_of(k_other_job).empty());
}

TEST_CASE("a claim with a spool, or beyond the disk, does not wait for promises") {
  if (skipped_without_root()) return;
  Promised site;
  SUBCASE("with a spool, a whole one and a small one: the next claim, without it, waits") {
    for (const std::uint64_t serial : {1U, 2U}) {
      site.claim(serial, site.need, k_other_job, 1);
      CHECK_FALSE(site.is_granted(serial, k_other_job));
    }
    site.claim(3, site.need, k_other_job);
    CHECK_FALSE(site.answer(3, 3, k_other_job));
    CHECK_FALSE(site.allocator->lack_of(k_other_job).empty());
  }
  SUBCASE("more than the disk has") {
    site.claim(1, k_too_much, k_other_job);
    CHECK_FALSE(site.is_granted(1, k_other_job));
  }
}

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

// With the first, second and third job open, on one file system, each of that user.
SpaceLedger ledger_of(std::initializer_list<uid_t> users) {
  SpaceLedger ledger;
  JobKey job;
  for (const uid_t user : users) ledger.open({++job.job, 0}, user, 1, k_ledger_start);
  return ledger;
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
  SpaceLedger ledger = ledger_of({k_alice_uid, k_bob_uid});
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ask(ledger, k_second, claim_of(1, 41), 100));
  const SpaceAnswer answer = ledger.answer(k_second, terms_of(100));
  CHECK(answer.promised.bytes == 60);
  CHECK(answer.others == 1);
  CHECK(ask(ledger, k_second, claim_of(2, 40), 100));
}

TEST_CASE("what is written is no longer promised, as it is no longer free") {
  SpaceLedger ledger = ledger_of({k_alice_uid, k_bob_uid});
  CHECK(ask(ledger, k_first, claim_of(1, 60), 100));
  CHECK_FALSE(ledger.note(k_first, claim_of(1, 60, 50)));
  CHECK(ledger.promised_to(k_first).bytes == 10);
  CHECK(ask(ledger, k_second, claim_of(1, 40), 50));
}

TEST_CASE("an end, and a need that goes down, give the room to others") {
  SpaceLedger ledger = ledger_of({k_alice_uid, k_bob_uid});
  CHECK(ask(ledger, k_first, claim_of(1, 100), 100));
  SUBCASE("end") { ledger.close(k_first); }
  SUBCASE("correction") { ledger.note(k_first, {1, {30, 1}, {}, {}, 0}); }
  CHECK(ask(ledger, k_second, claim_of(1, 70), 100));
}

TEST_CASE("other file systems are another matter") {
  SpaceLedger ledger = ledger_of({k_alice_uid});
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
  SpaceLedger ledger = ledger_of({k_alice_uid, k_alice_uid, k_bob_uid});
  const auto disk = terms_of(80 * k_gib, 50);
  CHECK(ask(ledger, k_first, claim_of(1, 70 * k_gib), disk));
  CHECK(ledger.promised_to(k_first).bytes == 40 * k_gib);
  CHECK(ask(ledger, k_second, claim_of(1, 40 * k_gib), disk));
  CHECK(ledger.promised_to(k_second).bytes == k_little);
  CHECK(ask(ledger, k_third, claim_of(1, 30 * k_gib), disk));
  CHECK(ledger.promised_to(k_third).bytes == 20 * k_gib - k_little / 2);
}

TEST_CASE("a large archive on an idle disk is admitted, and the rest is promised while it comes") {
  SpaceLedger ledger = ledger_of({k_alice_uid});
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
  SpaceLedger ledger = ledger_of({k_alice_uid, k_bob_uid});
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
  SpaceLedger ledger = ledger_of({k_alice_uid});
  REQUIRE(ask(ledger, k_first, claim_of(1, 10 * k_gib), terms_of(80 * k_gib)));
  REQUIRE(ledger.note(k_first, claim_of(2, 90 * k_gib)));
  review(ledger, k_first, terms_of(80 * k_gib, 100, std::chrono::minutes(1)));
  CHECK(ledger.promised_to(k_first).bytes == 10 * k_gib);
  ledger.book(k_first, ledger.answer(k_first, terms_of(80 * k_gib)));  // a refusal
  review(ledger, k_first, terms_of(80 * k_gib, 100, std::chrono::minutes(2)));
  CHECK(ledger.promised_to(k_first).bytes == 10 * k_gib);
}
