#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Fd scratch_file() { return Fd(::memfd_create("status", MFD_CLOEXEC)); }

std::string bytes_at(const Fd& fd, off_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  REQUIRE(::pread(fd.get(), bytes.data(), count, offset) == static_cast<ssize_t>(count));
  return bytes;
}

std::string zeros(std::size_t count) { return std::string(count, '\0'); }

// The bytes of numbers, the least byte first.
template <typename Number>
std::string bytes_of(std::initializer_list<Number> numbers) {
  std::string bytes;
  for (const Number number : numbers)
    for (std::size_t i = 0; i < sizeof number; ++i)
      bytes += static_cast<char>(number >> (8 * i) & 0xff);
  return bytes;
}
using Numbers32 = std::initializer_list<std::uint32_t>;
using Numbers64 = std::initializer_list<std::uint64_t>;

void write_bytes(const Fd& fd, const std::string& bytes, off_t offset) {
  REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), offset) ==
          static_cast<ssize_t>(bytes.size()));
}

}  // namespace

// A daemon reads the files of workers that its predecessor, of an earlier release, has started.
TEST_CASE("the layout of a status file does not change") {
  const Fd fd = scratch_file();
  StatusHeader header{k_status_magic, 5, 1, 14, {}, 2, 6826, {}, {}, 1, {}};
  set_field(header.cause, "why");
  set_field(header.chosen, "start: e3.pt");
  header.every_s[1] = 900;
  ItemRecord item{3,  k_item_async | k_item_final,
                  1,  2,
                  3,  4,
                  5,  {},
                  {}, {},
                  {}, {},
                  16, 13,
                  14, 15,
                  12, 11,
                  9,  10,
                  6,  7,
                  8};
  set_field(item.what, "tar");
  set_field(item.source, "/s");
  set_field(item.destination, "/d");
  set_field(item.name, "N");
  set_field(item.note, "no");
  REQUIRE(write_status_environment(fd.get(), {"NODESTAGE_A=1"}));
  REQUIRE(write_status_item(fd.get(), 0, item));
  REQUIRE(write_status_header(fd.get(), header));

  CHECK(bytes_at(fd, 0, 16) == "nsg1" + bytes_of(Numbers32{5, 1, 14}));
  CHECK(bytes_at(fd, 16, 3236) == "why" + zeros(3233));
  CHECK(bytes_at(fd, 3252, 8) == bytes_of(Numbers32{2, 6826}));
  CHECK(bytes_at(fd, 3260, 512) == "start: e3.pt" + zeros(500));
  CHECK(bytes_at(fd, 3772, 260) ==
        bytes_of(Numbers32{0, 900}) + zeros(248) + bytes_of(Numbers32{1}));
  CHECK(bytes_at(fd, 4096, 14) == std::string("NODESTAGE_A=1\0", 14));
  constexpr off_t k_item = 4096 + 65536;
  CHECK(bytes_at(fd, k_item, 48) == bytes_of(Numbers32{3, 5}) + bytes_of(Numbers64{1, 2, 3, 4, 5}));
  CHECK(bytes_at(fd, k_item + 48, 48) == "tar" + zeros(45));
  CHECK(bytes_at(fd, k_item + 96, 1024) == "/s" + zeros(1022));
  CHECK(bytes_at(fd, k_item + 1120, 1024) == "/d" + zeros(1022));
  CHECK(bytes_at(fd, k_item + 2144, 256) == "N" + zeros(255));
  CHECK(bytes_at(fd, k_item + 2400, 1608) == "no" + zeros(1606));
  CHECK(bytes_at(fd, k_item + 4008, 88) ==
        bytes_of(Numbers64{16, 13, 14, 15, 12, 11, 9, 10, 6, 7, 8}));
}

// Before the field for the item that has failed, `cause` went on to the claim.
TEST_CASE("a status file of the first release is read, whatever its cause's length") {
  for (const std::size_t length : {0UL, 3UL, 3235UL, 3236UL, 3240UL, 3244UL, 4014UL, 4015UL}) {
    const Fd fd = scratch_file();
    write_bytes(fd,
                std::string("nsg1"
                            "\5\0\0\0"
                            "\1\0\0\0"
                            "\0\0\0\0",
                            16),
                0);
    write_bytes(fd, std::string(length, 'x') + zeros(4016 - length + 64), 16);
    write_bytes(fd, std::string("\3\0\0\0", 4) + zeros(4092), 4096 + 65536);
    const auto status = must(read_worker_status(fd.get()));
    CHECK(status.phase == WorkerPhase::failed);
    CHECK(status.cause == std::string(std::min<std::size_t>(length, 3236), 'x'));
    REQUIRE(status.items.size() == 1);
    CHECK(state_of(status.items[0]) == ItemState::failed);
    CHECK_FALSE(status.failed_item);
    // What followed its cause is not taken for what later releases have there.
    CHECK(status.chosen.empty());
    CHECK(status.every_s.empty());
    CHECK(status.outputs == 0);
  }
}

TEST_CASE("the item that has failed is one of those that are there") {
  const Fd fd = scratch_file();
  StatusHeader header{.magic = k_status_magic, .phase = 5, .items = 2};
  const auto failed = [&](std::uint32_t item) {
    header.failed_item = item;
    REQUIRE(write_status_header(fd.get(), header));
    return read_worker_status(fd.get())->failed_item;
  };
  CHECK(failed(1) == 0);
  CHECK(failed(2) == 1);
  for (const std::uint32_t item : {0U, 3U, 65U, ~0U}) CHECK_FALSE(failed(item));
}

TEST_CASE("what a worker writes is what the daemon reads") {
  const Fd fd = scratch_file();
  StatusHeader header{
      .magic = k_status_magic, .phase = static_cast<std::uint32_t>(WorkerPhase::done), .items = 2};
  set_field(header.cause, "none");
  const std::vector<std::string> environment{"NODESTAGE_DATASET=/x/y z", "NODESTAGE_DATASET_A=/b"};
  for (const auto& variable : environment)
    header.environment_bytes += static_cast<std::uint32_t>(variable.size() + 1);
  REQUIRE(write_status_environment(fd.get(), environment));
  ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::done), .files = 12};
  set_field(item.source, "/p/data.tar");
  REQUIRE(write_status_item(fd.get(), 1, item));
  REQUIRE(write_status_header(fd.get(), header));

  const auto status = must(read_worker_status(fd.get()));
  CHECK(status.phase == WorkerPhase::done);
  CHECK(status.cause == "none");
  CHECK(status.environment == environment);
  REQUIRE(status.items.size() == 2);
  CHECK(status.items[1].files == 12);
  CHECK(field_text(status.items[1].source) == "/p/data.tar");
}

TEST_CASE("an empty or foreign file says nothing") {
  const Fd fd = scratch_file();
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
  StatusHeader header{.magic = 1, .phase = static_cast<std::uint32_t>(WorkerPhase::done)};
  REQUIRE(write_status_header(fd.get(), header));
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
}

TEST_CASE("claims of a hostile worker are bounded") {
  const Fd fd = scratch_file();
  StatusHeader header{.magic = k_status_magic,
                      .phase = static_cast<std::uint32_t>(WorkerPhase::done),
                      .items = 0xffffffff,
                      .environment_bytes = 0xffffffff};
  std::fill(std::begin(header.cause), std::end(header.cause), 'x');  // no NUL
  REQUIRE(write_status_header(fd.get(), header));
  REQUIRE(write_status_environment(fd.get(), {"LD_PRELOAD=/evil.so", "NODESTAGE_OK=1",
                                              "NODESTAGE_x=1", "NODESTAGE_NONE", "PATH=/evil"}));
  ItemRecord item{.state = 99, .files = 5};
  REQUIRE(write_status_item(fd.get(), 0, item));
  const auto status = must(read_worker_status(fd.get()));
  CHECK(status.cause.size() == sizeof header.cause);
  CHECK(status.environment == std::vector<std::string>{"NODESTAGE_OK=1"});
  CHECK(status.items.size() == 64);
  CHECK(status.items[0].files == 0);
  header.phase = 77;
  REQUIRE(write_status_header(fd.get(), header));
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
}

TEST_CASE("a field is cut, never overrun") {
  char field[4];
  set_field(field, "abcdef");
  CHECK(field_text(field) == "abc");
  set_field(field, "");
  CHECK(field_text(field).empty());
}

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
  const Fd fd = scratch_file();
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

  const Fd other = scratch_file();
  REQUIRE(write_space_answer(other.get(), decide(claim, {}, disk_of(100, 10, 20))));
  CHECK(read_space_answer(other.get())->serial == 7);
  CHECK(read_space_answer(other.get())->free.bytes == 100);
}

// A daemon reads the claims of workers that its predecessor, of an earlier release, has started,
// and they read its answers.
TEST_CASE("golden bytes of a claim and of an answer") {
  const Fd status = scratch_file();
  REQUIRE(write_space_written(status.get(), {6, 7}));
  REQUIRE(write_space_claim(status.get(), {1, {2, 3}, {4, 5}, {8, 9}, 0}));
  CHECK(bytes_at(status, 4032, 64) == bytes_of(Numbers64{1, 2, 3, 4, 5, 6, 7, 0}));

  const Fd answer = scratch_file();
  REQUIRE(write_space_answer(answer.get(), {1, 1, 2, {3, 4}, {5, 6}, {7, 8}, {9, 10}, 11, 0}));
  CHECK(bytes_at(answer, 0, 96) == bytes_of(Numbers64{1}) + bytes_of(Numbers32{1, 2}) +
                                       bytes_of(Numbers64{3, 4, 5, 6, 7, 8, 9, 10, 11, 0}));
}
