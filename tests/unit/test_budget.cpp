#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "common/os/file.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "scratch.hpp"
#include "sizes.hpp"
#include "stage_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Fd rate_file(std::uint64_t rate) {
  Fd fd(::memfd_create("rate", MFD_CLOEXEC));
  REQUIRE(::pwrite(fd.get(), &rate, sizeof rate, 0) == sizeof rate);
  return fd;
}

const std::atomic<bool> never_stopped = false;

double seconds(RateLimit& limit, std::uint64_t bytes, const std::atomic<bool>& stop) {
  const auto before = std::chrono::steady_clock::now();
  limit.take(bytes, stop, never_stopped);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

}  // namespace

TEST_CASE("what was read beyond the rate is waited for") {
  const Fd fd = rate_file(10'000'000);
  RateLimit limit(fd.get());
  limit.take(2'500'000, never_stopped, never_stopped);  // saved up
  CHECK(seconds(limit, 1'000'000, never_stopped) > 0.05);
}

TEST_CASE("no rate, no file, and a stop: no wait") {
  const Fd none = rate_file(0);
  const Fd slow = rate_file(1);
  std::atomic<bool> stop = false;
  RateLimit unlimited(none.get());
  RateLimit absent(-1);
  CHECK(seconds(unlimited, 1ULL << 50, stop) < 100);  // not for years
  CHECK(seconds(absent, 1ULL << 50, stop) < 100);     // not for years
  stop = true;
  RateLimit stopped(slow.get());
  CHECK(seconds(stopped, 1ULL << 50, stop) < 100);  // not for years
  RateLimit given_up(slow.get());
  given_up.take(1ULL << 50, never_stopped, stop);  // returns
}

// A worker and its daemon: what is asked for, and what happens when it is refused.

namespace {

// 24 MiB of zeros in 7 gzip members, each of which tells of 4 MiB.
constexpr const char* k_bomb =
    "head -c 24M /dev/zero >z && tar cf z.tar z && split -b 4M z.tar part && gzip part* && "
    "cat part*.gz >bomb.tar.gz && rm -f part* z z.tar";

}  // namespace

TEST_CASE("all that a job waits for is asked for at once, before anything is written") {
  StageRun stage("head -c 3M /dev/zero >f; head -c 2M /dev/zero >g; cp g h");
  for (const char* name : {"f", "g", "h"}) stage.add(name);
  SUBCASE("there is room") {
    stage.room = Amount{7 * k_mib, 3};
    CHECK(stage.run() == 0);
  }
  SUBCASE("too few bytes") {
    stage.room = Amount{7 * k_mib - 1, 100};
    CHECK(stage.run() == 1);
    CHECK(stage.status.cause.starts_with(
        stage.data() + "/f and 2 other datasets together need 7.0 MiB of local disk, but node n1"));
    CHECK(stage.in_job("test -z \"$(ls -A)\""));
  }
  SUBCASE("too few inodes") {
    stage.room = Amount{7 * k_mib, 2};
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause,
              "together need 3 files and directories (inodes) on local disk, "
              "but node n1 has 2 free\nAsk for"));
  }
  REQUIRE(stage.claims.size() == 1);
  CHECK(stage.claims[0].need == Amount{7 * k_mib, 3});
  CHECK(stage.claims[0].written == Amount{});
}

TEST_CASE("for want of room the job does without what it can do without") {
  StageRun stage("head -c 3M /dev/zero >f; head -c 2M /dev/zero >g; cp g h");
  for (const char* name : {"f", "g", "h"}) stage.add(name);
  stage.request.datasets[0].optional = true;
  stage.request.datasets[2].async = true;
  stage.room = Amount{4 * k_mib, 100};
  CHECK(stage.run() == 0);
  CHECK(stage.state(0) == ItemState::failed);
  CHECK(has(stage.note(0), "together need 5.0 MiB of local disk"));
  CHECK(stage.state(1) == ItemState::done);
  CHECK(stage.state(2) == ItemState::done);
  stage.room = Amount{3 * k_mib, 100};
  stage.claims.clear();
  CHECK(stage.in_job("rm -rf g h"));
  CHECK(stage.run() == 0);
  CHECK(stage.state(2) == ItemState::failed);
  CHECK(has(stage.note(2), "/h: needs 2.0 MiB of local disk"));
}

TEST_CASE("a source that holds more than it tells stops at what is admitted") {
  StageRun stage(k_bomb);
  stage.add("bomb.tar.gz");
  SUBCASE("there is room for all of it") {
    stage.room = Amount{25 * k_mib, 100};
    CHECK(stage.run() == 0);
    CHECK(stage.in_job("test $(stat -c %s bomb/z) = 25165824"));
  }
  SUBCASE("there is not") {
    stage.room = Amount{9 * k_mib, 100};
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause, "/bomb.tar.gz: entry 'z': the job has written "));
    CHECK(has(stage.status.cause, "of local disk, but node n1 has "));
    CHECK(stage.status.items[0].bytes_written <= 9 * k_mib);
    CHECK(stage.in_job("test -z \"$(ls -A)\""));
  }
  CHECK(stage.claims.size() > 1);
}

TEST_CASE("a directory is admitted as it grows") {
  StageRun stage(
      "mkdir d; for i in 1 2 3; do head -c 2M /dev/zero >d/$i; done; "
      "truncate -s 1G d/holes; ln d/1 d/link");
  stage.add("d");
  SUBCASE("there is room") {
    stage.room = Amount{6 * k_mib, 7};
    CHECK(stage.run() == 0);
  }
  SUBCASE("too little") {
    stage.room = Amount{5 * k_mib, 100};
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause, "and needs at least another "));
  }
  SUBCASE("too few inodes") {
    stage.room = Amount{100 * k_mib, 4};
    CHECK(stage.run() == 1);
    const std::string& cause = stage.status.cause;
    CHECK(has(cause, "needs at least another "));
    CHECK(has(cause, " files and directories (inodes) on local disk"));
  }
}

TEST_CASE("a worker writes nothing of a promise that was taken back") {
  const Fd status(::memfd_create("status", MFD_CLOEXEC));
  const Scratch scratch;
  const std::string path = scratch / "answer";
  const Fd answers(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  SpaceAnswer answer{.serial = 1, .granted = 1, .admitted = {100 * k_mib, 10}};
  REQUIRE(write_space_answer(answers.get(), answer));
  const std::atomic<bool> stop = true;  // it does not wait for answers that nobody gives
  Allowance allowance({status.get(), answers.get(), AT_FDCWD, 0, "n1"}, stop);
  REQUIRE(allowance.ask({{100 * k_mib, 10}, {100 * k_mib, 10}}, "x: needs"));
  answer.admitted = {10 * k_mib, 10};
  REQUIRE(write_space_answer(answers.get(), answer));
  CHECK(allowance.take({10 * k_mib, 1}));
  CHECK_FALSE(allowance.take({k_mib, 1}));
  const auto claim = must(read_space_claim(status.get()));
  CHECK(claim.serial == 2);
  CHECK(claim.least.bytes == 11 * k_mib);
  CHECK(claim.need.bytes == 100 * k_mib);
}

TEST_CASE("bytes that were removed count again as free memory") {
  const std::atomic<bool> stop = true;
  const MemoryShare share{20 * k_mib, 50, 40 * k_mib};
  Allowance memory({-1, -1, AT_FDCWD, 0, "n1", share}, stop);
  for (int round = 0; round < 5; ++round) {
    CHECK(memory.take({15 * k_mib, 0}));
    memory.wrote({15 * k_mib, 0});
    CHECK_FALSE(memory.take({10 * k_mib, 0}));
    memory.removed(15 * k_mib);
    memory.wrote({10 * k_mib, 0});
    memory.removed(10 * k_mib);
  }
}

TEST_CASE("the words of a refusal") {
  SpaceAnswer answer{.free = {60 * k_mib, 100}, .leave_free = 4 * k_mib};
  const auto words = [&](std::uint64_t bytes) {
    const Amount need{bytes * k_mib, 1};
    return too_little_space("/p/x: needs", "n1", need, need, answer).text();
  };
  const std::string first =
      "/p/x: needs 80.0 MiB of local disk, but node n1 has 60.0 MiB free, of "
      "which ";
  CHECK(words(80).starts_with(first + "4.0 MiB must stay free\nAsk for a node with more"));
  answer.promised = {30 * k_mib, 3};
  answer.others = 1;
  CHECK(words(80).starts_with(first + "30.0 MiB are promised to another job that stages there and "
                                      "4.0 MiB must stay free\nAsk for"));
  answer.others = 2;
  CHECK(has(words(50),
            "are promised to 2 other jobs that stage there and 4.0 MiB must stay "
            "free\nSubmit it again when other jobs on that node have ended"));
}
