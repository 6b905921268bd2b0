#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "hex.hpp"

using namespace nodestage;

namespace {

Fd scratch_file() { return Fd(::memfd_create("status", MFD_CLOEXEC)); }

std::string bytes_at(const Fd& fd, off_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  REQUIRE(::pread(fd.get(), bytes.data(), count, offset) == static_cast<ssize_t>(count));
  return bytes;
}

std::string zeros(std::size_t count) { return std::string(count, '\0'); }

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
                  13, 14,
                  15, 12,
                  11, 9,
                  10, 6,
                  7,  8};
  set_field(item.what, "tar");
  set_field(item.source, "/s");
  set_field(item.destination, "/d");
  set_field(item.name, "N");
  set_field(item.note, "no");
  REQUIRE(write_status_environment(fd.get(), {"NODESTAGE_A=1"}));
  REQUIRE(write_status_item(fd.get(), 0, item));
  REQUIRE(write_status_header(fd.get(), header));

  CHECK(hex(bytes_at(fd, 0, 16)) ==
        "6e736731"
        "05000000"
        "01000000"
        "0e000000");
  CHECK(bytes_at(fd, 16, 3236) == "why" + zeros(3233));
  CHECK(hex(bytes_at(fd, 3252, 4)) == "02000000");
  CHECK(hex(bytes_at(fd, 3256, 4)) == "aa1a0000");
  CHECK(bytes_at(fd, 3260, 512) == "start: e3.pt" + zeros(500));
  CHECK(hex(bytes_at(fd, 3772, 256)) == "0000000084030000" + std::string(496, '0'));
  CHECK(hex(bytes_at(fd, 4028, 4)) == "01000000");
  CHECK(bytes_at(fd, 4096, 14) == std::string("NODESTAGE_A=1\0", 14));
  constexpr off_t k_item = 4096 + 65536;
  CHECK(hex(bytes_at(fd, k_item, 48)) ==
        "03000000"
        "05000000"
        "0100000000000000"
        "0200000000000000"
        "0300000000000000"
        "0400000000000000"
        "0500000000000000");
  CHECK(bytes_at(fd, k_item + 48, 48) == "tar" + zeros(45));
  CHECK(bytes_at(fd, k_item + 96, 1024) == "/s" + zeros(1022));
  CHECK(bytes_at(fd, k_item + 1120, 1024) == "/d" + zeros(1022));
  CHECK(bytes_at(fd, k_item + 2144, 256) == "N" + zeros(255));
  CHECK(bytes_at(fd, k_item + 2400, 1616) == "no" + zeros(1614));
  CHECK(hex(bytes_at(fd, k_item + 4016, 24)) ==
        "0d00000000000000"
        "0e00000000000000"
        "0f00000000000000");
  CHECK(hex(bytes_at(fd, k_item + 4040, 56)) ==
        "0c00000000000000"
        "0b00000000000000"
        "0900000000000000"
        "0a00000000000000"
        "0600000000000000"
        "0700000000000000"
        "0800000000000000");
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
    const auto status = read_worker_status(fd.get());
    REQUIRE(status);
    CHECK(status->phase == WorkerPhase::failed);
    CHECK(status->cause == std::string(std::min<std::size_t>(length, 3236), 'x'));
    REQUIRE(status->items.size() == 1);
    CHECK(state_of(status->items[0]) == ItemState::failed);
    CHECK_FALSE(status->failed_item);
    // What followed its cause is not taken for what later releases have there.
    CHECK(status->chosen.empty());
    CHECK(status->every_s.empty());
    CHECK(status->outputs == 0);
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
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(WorkerPhase::done);
  header.items = 2;
  set_field(header.cause, "none");
  const std::vector<std::string> environment{"NODESTAGE_DATASET=/x/y z", "NODESTAGE_DATASET_A=/b"};
  for (const auto& variable : environment)
    header.environment_bytes += static_cast<std::uint32_t>(variable.size() + 1);
  REQUIRE(write_status_environment(fd.get(), environment));
  ItemRecord item{};
  item.state = static_cast<std::uint32_t>(ItemState::done);
  item.files = 12;
  set_field(item.source, "/p/data.tar");
  REQUIRE(write_status_item(fd.get(), 1, item));
  REQUIRE(write_status_header(fd.get(), header));

  const auto status = read_worker_status(fd.get());
  REQUIRE(status);
  CHECK(status->phase == WorkerPhase::done);
  CHECK(status->cause == "none");
  CHECK(status->environment == environment);
  REQUIRE(status->items.size() == 2);
  CHECK(status->items[1].files == 12);
  CHECK(field_text(status->items[1].source) == "/p/data.tar");
}

TEST_CASE("an empty or foreign file says nothing") {
  const Fd fd = scratch_file();
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
  StatusHeader header{};
  header.magic = 1;
  header.phase = static_cast<std::uint32_t>(WorkerPhase::done);
  REQUIRE(write_status_header(fd.get(), header));
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
}

TEST_CASE("claims of a hostile worker are bounded") {
  const Fd fd = scratch_file();
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(WorkerPhase::done);
  header.items = 0xffffffff;
  header.environment_bytes = 0xffffffff;
  std::fill(std::begin(header.cause), std::end(header.cause), 'x');  // no NUL
  REQUIRE(write_status_header(fd.get(), header));
  REQUIRE(write_status_environment(fd.get(), {"LD_PRELOAD=/evil.so", "NODESTAGE_OK=1",
                                              "NODESTAGE_x=1", "NODESTAGE_NONE", "PATH=/evil"}));
  ItemRecord item{};
  item.state = 99;
  item.files = 5;
  REQUIRE(write_status_item(fd.get(), 0, item));
  const auto status = read_worker_status(fd.get());
  REQUIRE(status);
  CHECK(status->cause.size() == sizeof header.cause);
  CHECK(status->environment == std::vector<std::string>{"NODESTAGE_OK=1"});
  CHECK(status->items.size() == 64);
  CHECK(status->items[0].files == 0);
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
