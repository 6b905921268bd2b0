// Originals that stall, cannot be read, are other files, or change.
#include <doctest/doctest.h>

#include <filesystem>

#include "relay_run.hpp"

using namespace nodestage;

TEST_CASE("a file system that stalls for longer than every limit is still read once") {
  const RelayFile file(noise(3 * k_mib));
  Tap tap;
  tap.open_to(k_mib);
  RelayRow row = row_behind(tap, 3);
  row.start([](RelayOrder& order) { order.relay.silence_wait_s = 2; });
  row.ask(file);
  Readers readers(row.all(), file);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  CHECK(row[2].slot().watermark == k_mib);
  tap.open_to(UINT64_MAX);
  readers.check_all();
  CHECK(row.from_storage() == file.bytes.size());
}

TEST_CASE("a node whose file cannot be read sees that, and the next one reads the original") {
  const RelayFile file(noise(3 * k_mib));
  RelayRow row(4, 8 * k_mib, [](std::size_t i) -> OpenOriginal {
    if (i != 1) return open_original;
    return [](const std::string& path, const RelayIdentity&) -> Result<std::unique_ptr<Original>> {
      return system_error(path, EACCES);
    };
  });
  row.start();
  row.ask(file);
  Readers({&row[0], &row[2], &row[3]}, file).check_all();
  CHECK(in_time([&] { return row[1].is_in(RelaySlotState::over); }));
  CHECK(field_text(row[1].slot().why) == file.path + ": Permission denied");
  CHECK(row[1].slot().watermark == 0);
  CHECK(row[2].slot().from_storage == file.bytes.size());
  CHECK(row[3].slot().from_storage == 0);
}

TEST_CASE("another file at the same path is not passed on") {
  const Scratch scratch;
  const RelayFile file(scratch / "data", noise(k_mib));
  RelayNode node;
  node.start();
  node.set_head();
  node.set_lanes(3);
  RelayFile older = file;
  --older.identity.mtime_ns;
  RelayFile smaller = file;
  --smaller.identity.size;
  RelayFile directory = file;
  directory.path = scratch.path().string();
  const RelayFile* const files[] = {&older, &smaller, &directory};
  for (std::size_t i = 0; i < 3; ++i) node.ask(*files[i], i);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(in_time([&] { return node.is_in(RelaySlotState::over, i); }));
    CHECK(node.slot(i).watermark == 0);
  }
  const std::string same = file.path + ": is not the same file here, or has changed";
  CHECK(field_text(node.slot(0).why) == same);
  CHECK(field_text(node.slot(1).why) == same);
  CHECK(field_text(node.slot(2).why) == directory.path + ": is not a regular file");
}

TEST_CASE("a file that is cut while it is read: every node has what was there, and sees the end") {
  const RelayFile file(noise(4 * k_mib));
  Tap tap;
  tap.open_to(k_mib);
  RelayRow row = row_behind(tap, 3);
  row.start();
  row.ask(file);
  CHECK(in_time([&] { return row[2].slot().watermark == k_mib; }));
  std::filesystem::resize_file(file.path, k_mib);
  tap.open_to(UINT64_MAX);
  for (std::size_t i = 0; i < row.size(); ++i) {
    CHECK((read_slot(row[i], file.bytes.size()) == file.bytes.substr(0, k_mib)));
    CHECK(row[i].is_in(RelaySlotState::over));
    CHECK(field_text(row[i].slot().why) == file.path + ": ends earlier than it should");
  }
}
