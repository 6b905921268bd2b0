// Attack: code that runs with the user's rights owns the status file: it may write anything into
// it, at any time, and make it any size. The daemon, root, reads it; the job's tasks print what it
// says.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "../unit/texts.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "mutations.hpp"

using namespace nodestage;

namespace {

Fd scratch_file() { return Fd(::memfd_create("status", MFD_CLOEXEC)); }

StatusHeader header_of(WorkerPhase phase) {
  return {.magic = k_status_magic, .phase = static_cast<std::uint32_t>(phase)};
}

std::vector<std::string> environment_of(const std::string& area) {
  const Fd fd = scratch_file();
  auto header = header_of(WorkerPhase::done);
  header.environment_bytes = static_cast<std::uint32_t>(area.size());
  REQUIRE(write_status_header(fd.get(), header));
  REQUIRE(::pwrite(fd.get(), area.data(), area.size(), k_environment_offset) ==
          static_cast<ssize_t>(area.size()));
  return read_worker_status(fd.get())->environment;
}

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
}

}  // namespace

TEST_CASE("counts and sizes are bounded, whatever the file claims") {
  const Fd fd = scratch_file();
  auto header = header_of(WorkerPhase::working);
  header.items = 0xffffffff;
  header.environment_bytes = 0xffffffff;
  REQUIRE(write_status_header(fd.get(), header));
  REQUIRE(::ftruncate(fd.get(), off_t{1} << 40) == 0);  // sparse
  const auto status = must(read_worker_status(fd.get()));
  CHECK(status.items.size() == k_max_request_items);
  CHECK(status.environment.empty());
}

TEST_CASE("a phase or a magic that is not known reads as nothing said") {
  const Fd fd = scratch_file();
  auto header = header_of(WorkerPhase::done);
  header.phase = 6;
  REQUIRE(write_status_header(fd.get(), header));
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
  header = header_of(WorkerPhase::done);
  header.magic = 0;
  REQUIRE(write_status_header(fd.get(), header));
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
  REQUIRE(::ftruncate(fd.get(), 100) == 0);
  CHECK(read_worker_status(fd.get())->phase == WorkerPhase::none);
}

TEST_CASE("only variables of nodestage's own get through") {
  using namespace std::string_literals;
  const auto environment = environment_of(
      "LD_PRELOAD=/x\0PATH=/x\0SLURM_TMPDIR=/etc\0NODESTAGE_A\0NODESTAGE_a=1\0NODESTAGE_DATASET=/l/"
      "d\0"
      " NODESTAGE_B=1\0\0NODESTAGE_C D=1\0NODESTAGE_E=no end"s);
  CHECK(environment == std::vector<std::string>{"NODESTAGE_DATASET=/l/d", "NODESTAGE_E=no end"});
}

TEST_CASE("whatever the file holds, its lines are printable, and an answer fits into one message") {
  Mutations random(99, {"x"});
  const Fd fd = scratch_file();
  for (int round = 0; round < 50; ++round) {
    std::string noise(k_items_offset + k_max_request_items * sizeof(ItemRecord), '\0');
    for (char& c : noise) c = static_cast<char>(random.below(256));
    REQUIRE(::pwrite(fd.get(), noise.data(), noise.size(), 0) ==
            static_cast<ssize_t>(noise.size()));
    auto header = header_of(static_cast<WorkerPhase>(random.below(6)));
    header.items = 64;
    header.environment_bytes = k_max_environment_bytes;
    std::fill(std::begin(header.cause), std::end(header.cause), '\x1b');  // no NUL
    REQUIRE(write_status_header(fd.get(), header));
    for (std::size_t i = 0; i < 64; ++i) {
      // The state is believed only when it is one; all others of the record are noise without a
      // NUL.
      ItemRecord item{};
      std::fill(std::begin(item.what), std::end(item.what), '\x9b');
      std::fill(std::begin(item.source), std::end(item.source), '\n');
      std::fill(std::begin(item.destination), std::end(item.destination), '\x1b');
      std::fill(std::begin(item.note), std::end(item.note), '\x07');
      item.state = static_cast<std::uint32_t>(random.below(6));
      item.files = item.bytes_written = item.elapsed_ms = ~0ULL;
      REQUIRE(write_status_item(fd.get(), i, item));
    }
    const auto status = must(read_worker_status(fd.get()));
    const auto lines = summary_lines(status);
    CHECK(std::all_of(lines.begin(), lines.end(), is_printable));
    CHECK(is_printable(progress_of(status).current));
    CHECK(encode_message(Ready{status.environment, lines}).size() <= k_max_message_bytes);
    CHECK(encode_message(progress_of(status)).size() <= k_max_message_bytes);
    for (const StatusItem& told : status_items(status, WorkerTask::stage)) {
      CHECK(is_printable(told.name + told.what + told.source + told.destination + told.note));
      CHECK(encode_message(told).size() <= k_max_message_bytes);
      for (const auto number :
           {told.bytes_read, told.bytes_total, told.bytes_written, told.files, told.elapsed_ms})
        CHECK(number <= k_largest_claim);
    }
  }
}
