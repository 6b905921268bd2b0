#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "common/os/fd.hpp"
#include "common/wire/status_file.hpp"

using namespace nodestage;

namespace {
Fd scratch_file() { return Fd(::memfd_create("status", MFD_CLOEXEC)); }
}  // namespace

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
