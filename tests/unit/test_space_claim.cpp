#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "hex.hpp"

using namespace nodestage;

namespace {

SpaceClaim claim_of(std::uint64_t need, std::uint64_t least, std::uint64_t written = 0) {
  return {1, {need, 1}, {least, 1}, {written, 0}, 0};
}

Disk disk_of(std::uint64_t free, std::uint64_t leave_free, std::uint64_t promised) {
  return {{free, 100}, leave_free, {promised, 0}, promised == 0 ? 0U : 1U};
}

}  // namespace

TEST_CASE("a need is admitted against what is free, less what stays free and what is promised") {
  CHECK(decide(claim_of(70, 70), {}, disk_of(100, 10, 20)).granted == 1);
  CHECK(decide(claim_of(71, 71), {}, disk_of(100, 10, 20)).granted == 0);
  CHECK(decide(claim_of(1, 1), {}, disk_of(100, 80, 30)).granted == 0);
  CHECK(decide(claim_of(0, 0), {}, disk_of(0, 80, 30)).granted == 1);
}

TEST_CASE("of a guess no more is admitted than the least and half of what is left") {
  const auto answer = decide(claim_of(500, 40), {}, disk_of(100, 10, 20));
  CHECK(answer.granted == 1);
  CHECK(answer.admitted == Amount{55, 1});
  CHECK(answer.promised.bytes == 20);
  CHECK(answer.leave_free == 10);
}

TEST_CASE("what is written already needs no room, and a refusal takes nothing away") {
  const auto more_of_it = decide(claim_of(150, 150, 100), {100, 1}, disk_of(50, 0, 0));
  CHECK(more_of_it.granted == 1);
  CHECK(more_of_it.admitted.bytes == 150);
  const auto refused = decide(claim_of(151, 151, 100), {100, 1}, disk_of(50, 0, 0));
  CHECK(refused.granted == 0);
  CHECK(refused.admitted == Amount{100, 1});
}

TEST_CASE("inodes are granted and refused as bytes are") {
  SpaceClaim claim = claim_of(1, 1);
  claim.need.inodes = claim.least.inodes = 101;
  CHECK(decide(claim, {}, disk_of(100, 0, 0)).granted == 0);
  claim.least.inodes = 100;
  CHECK(decide(claim, {}, disk_of(100, 0, 0)).admitted.inodes == 100);
  claim.least.inodes = 0;
  CHECK(decide(claim, {}, disk_of(100, 0, 0)).admitted.inodes == 50);
}

TEST_CASE("claims and answers are what was written, beside the rest of the status file") {
  const Fd fd(::memfd_create("status", MFD_CLOEXEC));
  CHECK(read_space_claim(fd.get())->serial == 0);
  CHECK(read_space_answer(fd.get())->serial == 0);
  const SpaceClaim claim{7, {1, 2}, {3, 4}, {9, 9}, 0};
  REQUIRE(write_space_written(fd.get(), {5, 6}));
  REQUIRE(write_space_claim(fd.get(), claim));
  StatusHeader header{.magic = k_status_magic, .phase = 2};
  REQUIRE(write_status_header(fd.get(), header));
  const auto read = read_space_claim(fd.get());
  CHECK(read->serial == 7);
  CHECK(read->need == claim.need);
  CHECK(read->least == claim.least);
  CHECK(read->written == Amount{5, 6});
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::working);

  const Fd other(::memfd_create("answer", MFD_CLOEXEC));
  REQUIRE(write_space_answer(other.get(), decide(claim, {}, disk_of(100, 10, 20))));
  CHECK(read_space_answer(other.get())->serial == 7);
  CHECK(read_space_answer(other.get())->free.bytes == 100);
}

// A daemon reads the claims of workers that its predecessor, of an earlier release, has started,
// and they read its answers.
TEST_CASE("golden bytes of a claim and of an answer") {
  const auto bytes_of = [](const Fd& fd, std::size_t count, off_t offset) {
    std::string bytes(count, '\0');
    REQUIRE(::pread(fd.get(), bytes.data(), count, offset) == static_cast<ssize_t>(count));
    return hex(bytes);
  };
  const Fd status(::memfd_create("status", MFD_CLOEXEC));
  REQUIRE(write_space_written(status.get(), {6, 7}));
  REQUIRE(write_space_claim(status.get(), {1, {2, 3}, {4, 5}, {8, 9}, 0}));
  CHECK(bytes_of(status, 64, 4032) ==
        "0100000000000000"
        "0200000000000000"
        "0300000000000000"
        "0400000000000000"
        "0500000000000000"
        "0600000000000000"
        "0700000000000000"
        "0000000000000000");

  const Fd answer(::memfd_create("answer", MFD_CLOEXEC));
  REQUIRE(write_space_answer(answer.get(), {1, 1, 2, {3, 4}, {5, 6}, {7, 8}, {9, 10}, 11, 0}));
  CHECK(bytes_of(answer, 96, 0) ==
        "0100000000000000"
        "01000000"
        "02000000"
        "0300000000000000"
        "0400000000000000"
        "0500000000000000"
        "0600000000000000"
        "0700000000000000"
        "0800000000000000"
        "0900000000000000"
        "0a00000000000000"
        "0b00000000000000"
        "0000000000000000");
}
