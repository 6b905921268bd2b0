// The slots of a board: who gets one, and when it is taken back.
#include <doctest/doctest.h>

#include "common/os/mounts.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "relay_run.hpp"

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
  const Fd here(::open(scratch.path().c_str(), O_PATH | O_CLOEXEC));
  const auto mounts = read_mountinfo();
  REQUIRE(mounts);
  const auto mount = find_mount(*mounts, mount_of(here.get()));
  REQUIRE(mount);
  node.order.relay.file_systems = {std::string(mount->type)};
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
    return sources.claim(files[i]->path, infos[i], meter, why);
  };
  for (std::size_t i = 0; i < 2; ++i) {
    const auto place = claim(i);
    REQUIRE(place);
    CHECK(in_time([&] { return place->slot->watermark == files[i]->bytes.size(); }));
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
