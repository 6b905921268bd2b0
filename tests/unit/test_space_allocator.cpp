// How workers are promised space on the disk, through the files that they and the daemon share.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "daemon/root/shares/space_allocator.hpp"
#include "scratch.hpp"
#include "tests/unit/sizes.hpp"
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
    auto file = allocator->make_answer_file(job);
    REQUIRE(file);
    answers.insert_or_assign(job, std::move(*file));
    Subject subject;
    subject.uid = 1000 + job.job;
    allocator->open(job, subject,
                    Fd(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }
  // As the worker's status file says it.
  void claim(std::uint64_t serial, const Amount& need, const JobKey& job = k_claiming_job,
             std::uint64_t with_spare = 0) const {
    const auto file = areas->open_status(job, "stage", O_RDWR | O_CREAT);
    REQUIRE(file);
    REQUIRE(write_space_written(file->get(), {}));
    REQUIRE(write_space_claim(file->get(), {serial, need, need, {}, with_spare}));
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
    const auto given = answer(serial, 100, job);
    REQUIRE(given);
    return given->granted == 1;
  }
};

}  // namespace

TEST_CASE("a claim that fits is admitted, and promised until the worker exits") {
  if (skipped_without_root()) return;
  AllocatorSite site;
  CHECK_FALSE(site.answer(1, 2));  // nothing was asked for
  site.claim(1, k_little_amount);
  const auto answer = site.answer(1);
  REQUIRE(answer);
  CHECK(answer->granted == 1);
  CHECK(fits(k_little_amount, answer->admitted));
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
    const auto first = answer(1);
    REQUIRE(first);
    REQUIRE(first->granted == 1);
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
    const auto others = read_space_answer(site.answers.at(k_claiming_job).get());
    REQUIRE(others);
    CHECK(others->admitted == site.allocator->promised_to(k_claiming_job));
  }
  SUBCASE("and not for longer than the site lets it") {
    site.config.staging.promise_time_s = 86'400;
    site.loop->advance(std::chrono::seconds(3601));
    const auto answer = site.answer(1, 100, k_other_job);
    REQUIRE(answer);
    CHECK(answer->granted == 0);
    CHECK(answer->others == 1);
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
