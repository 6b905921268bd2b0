// The slots of a board: who gets one, and when it is taken back.
#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "relay_run.hpp"
#include "texts.hpp"
#include "type_of_file_system.hpp"

using namespace nodestage;

TEST_CASE("a closed slot is kept, and taken back when the staging worker finds none free") {
  const Scratch scratch;
  const RelayFile one(scratch / "one", noise(k_mib, 1));
  const RelayFile other(scratch / "other", noise(2 * k_mib, 2));
  RelayRow row(1);
  row.start();
  row[0].ask(one);
  CHECK((read_slot(row[0], one.bytes.size()) == one.bytes));
  row[0].close();
  row[0].await_look();
  CHECK(row[0].is_in(RelaySlotState::serving));
  raise(row[0].board().asks);
  CHECK(in_time([&] { return row[0].is_in(RelaySlotState::unused); }));
  CHECK(row[0].slot().watermark == 0);
  CHECK(row[0].reader_is(RelayReader::none));
  row[0].ask(other);
  CHECK((read_slot(row[0], other.bytes.size()) == other.bytes));
}

TEST_CASE("of several slots, one that is of no use to others is taken back first") {
  const Scratch scratch;
  RelayRow row(1, 3 * k_mib);
  row.start({}, 3);
  std::vector<std::unique_ptr<RelayFile>> files;
  // The second one's beginning is gone when it has been read.
  for (const std::uint64_t size : {k_mib / 2, 4 * k_mib, k_mib / 2})
    files.push_back(std::make_unique<RelayFile>(scratch / std::to_string(files.size()),
                                                noise(size, files.size() + 1)));
  for (std::size_t i = 0; i < files.size(); ++i) {
    row[0].ask(*files[i], i);
    CHECK((read_slot(row[0], files[i]->bytes.size(), i) == files[i]->bytes));
  }
  raise(row[0].board().asks);
  row[0].await_look();
  for (std::size_t i = 0; i < 3; ++i) CHECK(row[0].is_in(RelaySlotState::serving, i));
  for (std::size_t i = 0; i < 3; ++i) row[0].close(i);
  raise(row[0].board().asks);
  CHECK(in_time([&] { return row[0].is_in(RelaySlotState::unused, 1); }));
  CHECK(row[0].is_in(RelaySlotState::serving, 0));
  CHECK(row[0].is_in(RelaySlotState::serving, 2));
}

TEST_CASE("sources are relayed side by side, each in its own ring") {
  const Scratch scratch;
  RelayRow row(3, 4 * k_mib);
  row.start({}, 4);
  std::vector<std::unique_ptr<RelayFile>> files;
  for (std::size_t i = 0; i < 4; ++i)
    files.push_back(std::make_unique<RelayFile>(scratch / std::to_string(i),
                                                noise((i + 1) * k_mib + i, i + 1)));
  // In the middle in other slots than at its neighbours.
  const auto slot_of = [](std::size_t node, std::size_t file) {
    return node == 1 ? 3 - file : file;
  };
  for (std::size_t node = 0; node < row.size(); ++node) {
    for (std::size_t i = 0; i < 4; ++i) row[node].ask(*files[i], slot_of(node, i));
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(in_time([&] { return row[node].is_in(RelaySlotState::serving, i); }));
  }
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (std::size_t node = 0; node < row.size(); ++node) {
    for (std::size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, node, i] {
        const std::string got = read_slot(row[node], files[i]->bytes.size(), slot_of(node, i));
        same += got == files[i]->bytes ? 1 : 0;
      });
  }
  for (auto& thread : threads) thread.join();
  CHECK(same == 12);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(row[0].slot(i).from_storage == files[i]->bytes.size());
    CHECK(row[1].slot(i).from_storage == 0);
    CHECK(row[2].slot(i).from_storage == 0);
  }
}

TEST_CASE("two threads that find no free slot get one each") {
  const Scratch scratch;
  RelayNode node(128 * k_mib);
  node.order.relay.file_systems = {type_of_file_system(scratch.path())};
  node.order.relay.silence_wait_s = 60;
  node.order.relay.patience_s = 60;
  RelayedSources sources(node.order.relay, node.board_fd(), node.spool());
  std::vector<std::unique_ptr<RelayFile>> files;
  std::vector<struct stat> infos(4);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    files.push_back(
        std::make_unique<RelayFile>(scratch / std::to_string(i), noise(k_mib / 2, i + 1)));
    REQUIRE(::stat(files[i]->path.c_str(), &infos[i]) == 0);
    sources.expect(files[i]->path, infos[i]);
  }
  sources.begin(2);
  REQUIRE(node.board().lanes == 2);
  node.start();
  node.set_head();
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  const Meter meter(rate, stop);
  const auto claim = [&](std::size_t i) {
    std::string why;
    return sources.claim({files[i]->path, identity_of(infos[i]), RelayKind::file}, meter, why);
  };
  for (std::size_t i = 0; i < 2; ++i) {
    const auto place = must(claim(i));
    CHECK(in_time([&] { return place.slot->watermark == files[i]->bytes.size(); }));
  }
  const std::uint32_t asks = node.board().asks;
  std::atomic<int> places = 0;
  std::thread one([&] { places += claim(2) ? 1 : 0; });
  std::thread other([&] { places += claim(3) ? 1 : 0; });
  CHECK(in_time([&] { return node.board().asks >= asks + 2; }));
  node.close(0);
  CHECK(in_time([&] { return places == 1; }));
  node.close(1);
  one.join();
  other.join();
  CHECK(places == 2);
}

TEST_CASE("a successor waits for a slot while all are in use, and gets the next one") {
  const Scratch scratch;
  const RelayFile one(scratch / "one", noise(k_mib, 1));
  const RelayFile other(scratch / "other", noise(2 * k_mib, 2));
  RelayRow row(2);
  row.start([](RelayOrder& order) { order.relay.patience_s = 60; });
  row[0].ask(one);
  CHECK((read_slot(row[0], one.bytes.size()) == one.bytes));
  row[1].ask(other);
  std::string got;
  std::thread reader([&] { got = read_slot(row[1], other.bytes.size()); });
  row[0].await_look();
  CHECK(row[1].slot().watermark == 0);
  row[0].close();
  reader.join();
  CHECK((got == other.bytes));
  CHECK(row[1].slot().from_storage == 0);
}

TEST_CASE("a slot without a path is over") {
  RelayRow row(1);
  row.start();
  RelayFile nothing = RelayFile(Scratch() / "gone", "");
  nothing.path = "";
  row[0].ask(nothing);
  CHECK(in_time([&] { return row[0].is_in(RelaySlotState::over); }));
}

TEST_CASE("a path without its NUL is bounded, and no path") {
  RelayRow row(1);
  row.start();
  RelaySlot& slot = row[0].slot();
  slot.identity = {k_mib, 1, 1};
  std::fill(std::begin(slot.path), std::end(slot.path), '/');
  slot.state = static_cast<std::uint32_t>(RelaySlotState::asked);
  raise(row[0].board().asks);
  CHECK(in_time([&] { return row[0].is_in(RelaySlotState::over); }));
}

// Originals that stall, cannot be read, are other files, or change.

TEST_CASE("a file system that stalls for longer than every limit is still read once") {
  const RelayFile file(noise(3 * k_mib));
  Tap tap;
  tap.open_to(k_mib);
  RelayRow row = row_behind(tap, 3);
  row.start([](RelayOrder& order) { order.relay.silence_wait_s = 2; });
  row.ask(file);
  Readers readers(row.all(), file);
  CHECK(in_time([&] { return row[2].slot().watermark == k_mib; }));
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
