// The slots of the board, as the staging worker claims, reads and closes them.
#include <doctest/doctest.h>

#include <thread>

#include "common/os/mounts.hpp"
#include "daemon/worker/read/read_ahead.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "fake_relay.hpp"
#include "piece_run.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"
#include "type_of_file_system.hpp"

using namespace nodestage;

namespace {

RelaySlotState state_of(const RelaySlot& slot) {
  return static_cast<RelaySlotState>(slot.state.load());
}
RelayReader reader_of(const RelaySlot& slot) {
  return static_cast<RelayReader>(slot.reader.load());
}

// A file of 8 MiB, a board, and a worker that is about to read it.
class Reader {
 public:
  explicit Reader(std::uint64_t window = 4 * k_mib)
      : relay(window), path_(scratch_ / "f"), meter_(rate_, stop) {
    write_file(path_, std::string(8 * k_mib, 'x'));
    rules.least_bytes = 1;
    rules.window_bytes = window;
    rules.silence_wait_s = 1;
    rules.patience_s = 1;
    source_.emplace(must(Source::open(path_, meter_)));
    rules.file_systems = {type_of_file_system(path_)};
    sources_.emplace(rules, relay.board_fd(), relay.spool_fd());
    item_.emplace(&*sources_, meter_);
  }

  // The source and as many others are expected, that many side by side.
  void expect(std::size_t number = 1, std::size_t at_once = 1) {
    for (std::size_t i = 0; i < number; ++i) sources_->expect(path_, source_->info());
    sources_->begin(at_once);
  }

  std::unique_ptr<RelayedSource> begin() {
    return item_->begin(path_, source_->fd(), source_->info(), 0);
  }
  // Whether it is read from another node.
  bool begins() { return begin() != nullptr; }

  // As the relay worker does it for another node.
  void serve_another(std::size_t slot) {
    RelaySlot& to = relay.slot(slot);
    to.identity = identity_of(source_->info());
    set_field(to.path, path_);
    to.low = 0;
    relay.set_state(slot, RelaySlotState::serving);
  }

  Source& source() { return *source_; }
  RelayedSources& sources() { return *sources_; }
  ItemRelay& item() { return *item_; }

  RelayRules rules;
  FakeRelay relay;
  std::atomic<bool> stop = false;

 private:
  Scratch scratch_;
  std::string path_;
  RateLimit rate_{-1};
  Meter meter_;
  std::optional<RelayedSources> sources_;
  std::optional<ItemRelay> item_;
  std::optional<Source> source_;
};

}  // namespace

TEST_CASE("a source is described in the first free slot") {
  Reader reader;
  reader.expect();
  const std::uint32_t asks = reader.relay.board().asks;
  auto relayed = reader.begin();
  REQUIRE(relayed);
  const RelaySlot& slot = reader.relay.slot(0);
  CHECK(state_of(slot) == RelaySlotState::asked);
  CHECK(reader_of(slot) == RelayReader::reading);
  CHECK(field_text(slot.path) == reader.source().path());
  CHECK(slot.identity.size == 8 * k_mib);
  CHECK(slot.identity.mtime_ns / 1'000'000'000 == reader.source().info().st_mtim.tv_sec);
  CHECK(slot.identity.ctime_ns % 1'000'000'000 == reader.source().info().st_ctim.tv_nsec);
  CHECK(reader.relay.board().asks != asks);
  relayed.reset();
  CHECK(reader_of(slot) == RelayReader::closed);
  CHECK(reader.relay.board().staging_is_over == 0);
  reader.sources().end();
  CHECK(reader.relay.board().staging_is_over == 1);
}

TEST_CASE("lanes are as many as can be used, in rings that are worth it") {
  for (const auto& [window, number, at_once, lanes] : {std::array<std::uint64_t, 4>{64, 9, 4, 1},
                                                       {4096, 1, 4, 1},
                                                       {4096, 9, 1, 2},
                                                       {4096, 9, 4, 8},
                                                       {256, 9, 4, 4},
                                                       {4, 9, 4, 1},
                                                       {4096, 0, 4, 0}}) {
    Reader reader(window * k_mib);
    reader.expect(number, at_once);
    CHECK(reader.relay.board().lanes == lanes);
    CHECK(reader.relay.board().staging_is_over == (number == 0 ? 1 : 0));
    CHECK(reader.sources().spool_bytes() == std::min(window * k_mib, number * 8 * k_mib));
  }
}

TEST_CASE("types of file systems are compared whole, and fuse with all of its kinds") {
  const std::string mounts =
      "21 1 0:20 / /a rw - fuse.sshfs h:/ rw,user_id=0\n22 1 0:21 / /b rw - nfs4 s:/x rw\n";
  CHECK(find_mount(mounts, "21")->type == "fuse.sshfs");
  CHECK(find_mount(mounts, "21")->options == "rw,user_id=0");
  CHECK_FALSE(find_mount(mounts, "2"));
  Reader reader;
  const std::string type = reader.rules.file_systems.front();
  for (const std::string& wrong : {type + "x", type.substr(1), std::string("fuse")}) {
    reader.rules.file_systems = {wrong};
    RelayedSources sources(reader.rules, reader.relay.board_fd(), reader.relay.spool_fd());
    CHECK_FALSE(sources.qualifies(reader.source().fd(), reader.source().info()));
  }
}

TEST_CASE("what is there for another node is read there") {
  Reader reader(256 * k_mib);
  reader.expect(4, 2);
  reader.serve_another(1);
  RelaySlot& other = reader.relay.slot(1);
  SUBCASE("from its start") {
    CHECK(reader.begins());
    CHECK(state_of(reader.relay.slot(0)) == RelaySlotState::unused);
    CHECK(reader_of(other) == RelayReader::closed);
    return;
  }
  SUBCASE("its start is gone") { other.low = 4096; }
  SUBCASE("it is another version") { ++other.identity.ctime_ns; }
  SUBCASE("it is another file") { set_field(other.path, reader.source().path() + "x"); }
  SUBCASE("it has ended before its end") { reader.relay.end(1, ""); }
  SUBCASE("another item reads there") {
    const auto first = reader.begin();
    CHECK(reader_of(other) == RelayReader::reading);
    CHECK(reader.begins());
  }
  SUBCASE("it is being given back") { other.reader = number(RelayReader::recycled); }
  const auto relayed = reader.begin();
  REQUIRE(relayed);
  CHECK(state_of(reader.relay.slot(0)) == RelaySlotState::asked);
}

TEST_CASE("nothing is asked of a relay worker that is lost, until it is back") {
  Reader reader;
  reader.expect();
  reader.sources().lose();
  CHECK_FALSE(reader.begins());
  CHECK(reader.item().was_asked());
  CHECK(reader.item().note() ==
        "read from the file system, not from other nodes: the process that relays does not answer");
  ++reader.relay.board().beat;
  CHECK(reader.begins());
}

// The relay worker is alive and sends nothing: nothing but stop() ends the wait.
TEST_CASE("a stopped read-ahead does not wait for other nodes") {
  Reader reader;
  reader.expect();
  std::atomic<bool> over = false;
  reader.relay.before = [](auto&, auto) { return false; };
  std::thread relay([&] { reader.relay.run(over); });
  reader.source().relay(reader.begin());
  REQUIRE(reader.source().relayed() != nullptr);
  {
    ReadAhead ahead(reader.source(), 0, {k_mib, 8, 4});
    REQUIRE(ahead.start());
    Status stopped_read;
    std::thread consumer([&] {
      const auto block = ahead.next();
      if (!block) stopped_read = block.error();
    });
    while (state_of(reader.relay.slot(0)) != RelaySlotState::serving) std::this_thread::yield();
    SUBCASE("by its owner") { ahead.stop(); }
    SUBCASE("by the worker's end") { reader.stop = true; }
    SUBCASE("by the source's end") { static_cast<void>(reader.source().relayed()->close()); }
    consumer.join();
    REQUIRE_FALSE(stopped_read);
    CHECK(is_stopped(stopped_read.error()));
  }
  over = true;
  relay.join();
}

TEST_CASE("a read far ahead waits while the others go on, and no longer") {
  Reader reader;
  reader.expect();
  auto relayed = reader.begin();
  REQUIRE(relayed);
  const std::atomic<bool> never = false;
  std::vector<std::byte> block(4096);
  RelaySlot& slot = reader.relay.slot(0);
  std::atomic<bool> over = false;
  reader.relay.disguise = 7;
  reader.relay.before = [](FakeRelay& at, std::size_t i) {
    return at.slot(i).watermark < 1 * k_mib || at.slot(i).position >= 1 * k_mib;
  };
  std::thread relay([&] { reader.relay.run(over); });
  // Nobody else reads: it is the original's, and does not count as a place.
  CHECK_FALSE(must(relayed->fetch(6 * k_mib, block, never)));
  relayed->read_original(6 * k_mib, block.size());
  CHECK(slot.position == 0);
  // Another one reads up to there.
  Result<bool> ahead = false;
  std::vector<std::byte> other(4096);
  std::thread waits([&] { ahead = relayed->fetch(3 * k_mib, other, never); });
  for (std::uint64_t at = 0; at < 8 * k_mib; at += block.size()) {
    const auto read = must(relayed->fetch(at, block, never));
    if (!read) relayed->read_original(at, block.size());
    if (read) REQUIRE(block.front() == std::byte{'x' ^ 7});
  }
  waits.join();
  REQUIRE(ahead);
  CHECK(slot.position == 8 * k_mib);
  over = true;
  relay.join();
  CHECK(relayed->close().from_nodes == 8 * k_mib);
}
