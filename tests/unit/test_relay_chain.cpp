// Nodes of a job in a row: each gets every byte, and one reads the original.
#include <doctest/doctest.h>

#include "relay_peer.hpp"
#include "relay_run.hpp"

using namespace nodestage;

TEST_CASE("two nodes: the second gets all of it from the first") {
  const RelayFile file(noise(5 * k_mib + 12345));
  RelayRow row(2);
  row.start();
  row.ask(file);
  read_on_all(row.all(), file);
  CHECK(row[0].slot().from_storage == file.bytes.size());
  CHECK(row[0].slot().from_nodes == 0);
  CHECK(row[1].slot().from_storage == 0);
  CHECK(row[1].slot().from_nodes == file.bytes.size());
  CHECK(field_text(row[1].slot().upstream) == "before");
}

TEST_CASE("what came from a node is counted by the time that it can be read") {
  const Scratch scratch;
  RelayRow row(2, 16 * k_mib);
  row.start({}, 16);
  for (std::size_t i = 0; i < 16; ++i) {
    const RelayFile file(scratch / std::to_string(i), noise(k_mib / 4 + i, i + 1));
    row[0].ask(file, i);
    row[1].ask(file, i);
    RelaySlot& slot = row[1].slot(i);
    std::uint64_t uncounted = 0;
    CHECK(in_time([&] {
      for (int looks = 0; looks < 1'000'000; ++looks) {
        const std::uint64_t there = slot.watermark;
        const std::uint64_t counted = slot.from_nodes;
        uncounted = std::max(uncounted, there - std::min(there, counted));
        if (there == file.bytes.size()) return true;
      }
      return false;
    }));
    CHECK(uncounted == 0);
  }
}

TEST_CASE("many nodes, and a ring that is much smaller than the source: one read, the same bytes") {
  for (const std::size_t nodes : {3U, 64U}) {
    CAPTURE(nodes);
    const RelayFile file(noise(nodes == 3 ? 9 * k_mib + 1 : 4 * k_mib + 777));
    RelayRow row(nodes, k_mib);
    row.start([nodes](RelayOrder& order) {
      if (nodes == 3) return;
      order.relay.silence_wait_s = 60;
      order.relay.patience_s = 60;
    });
    row.ask(file);
    read_on_all(row.all(), file);
    CHECK(row[0].slot().from_storage == file.bytes.size());
    CHECK(row.from_storage() == file.bytes.size());
  }
}

TEST_CASE(
    "a node that comes late gets it from its beginning, or reads the original once that is gone") {
  for (const bool is_kept : {true, false}) {
    CAPTURE(is_kept);
    const RelayFile file(noise(5 * k_mib));
    RelayRow row(2, is_kept ? 8 * k_mib : k_mib);
    row.start();
    row[0].ask(file);
    CHECK((read_slot(row[0], file.bytes.size()) == file.bytes));
    if (is_kept) row[0].close();
    row[1].ask(file);
    CHECK((read_slot(row[1], file.bytes.size()) == file.bytes));
    CHECK(row[1].slot().from_storage == (is_kept ? 0 : file.bytes.size()));
    CHECK(row[0].slot().from_storage == file.bytes.size());
  }
}

TEST_CASE("a node that is ahead has the one before it begin, which joins later") {
  const RelayFile file(noise(3 * k_mib));
  RelayRow row(2);
  row.start();
  row[1].ask(file);
  CHECK((read_slot(row[1], file.bytes.size()) == file.bytes));
  CHECK(row[0].is_in(RelaySlotState::serving));
  CHECK(field_text(row[0].slot().path) == file.path);
  row[0].join();
  CHECK((read_slot(row[0], file.bytes.size()) == file.bytes));
  CHECK(row.from_storage() == file.bytes.size());
}

TEST_CASE("a node waits for one that has no plan yet, and for its lanes") {
  const RelayFile file(noise(3 * k_mib));
  RelayNode head;
  RelayNode link;
  head.start();
  link.start();
  link.set_link(head);
  link.set_lanes();
  link.ask(file);
  std::string got;
  std::thread reader([&] { got = read_slot(link, file.bytes.size()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  head.set_head();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  head.set_lanes();
  reader.join();
  CHECK((got == file.bytes));
  CHECK(link.slot().from_storage == 0);
}

TEST_CASE("without a plan a node reads for itself") {
  const RelayFile file(noise(k_mib));
  RelayNode node;
  node.order.relay.answer_wait_s = 1;
  node.start();
  node.set_lanes();
  node.ask(file);
  CHECK((read_slot(node, file.bytes.size()) == file.bytes));
  CHECK(node.slot().from_storage == file.bytes.size());
}

TEST_CASE("a plan that says off turns the board off, and ends the worker") {
  RelayNode node;
  node.start();
  node.set_off("a node has an older release");
  CHECK(in_time([&] { return node.has_ended(); }));
  CHECK(node.board().is_off == 1);
  CHECK(field_text(node.board().why) == "a node has an older release");
}

TEST_CASE("a worker ends once the staging is over and no successor is there") {
  const RelayFile file(noise(3 * k_mib));
  RelayRow row(2);
  row[0].order.relay.silence_wait_s = 1;
  row.start();
  row.ask(file);
  CHECK((read_slot(row[0], file.bytes.size()) == file.bytes));
  row[0].close();
  row[0].board().staging_is_over = 1;
  raise(row[0].board().asks);
  CHECK((read_slot(row[1], file.bytes.size()) == file.bytes));
  CHECK(row[1].slot().from_storage == 0);
  CHECK(in_time([&] { return row[0].has_ended(); }));
  CHECK_FALSE(row[1].has_ended());
}

TEST_CASE("an empty board beats, and its words are raised a few times a second only") {
  RelayNode node;
  node.start();
  const std::uint32_t beat = node.board().beat;
  CHECK(in_time([&] { return node.board().beat != beat; }));
  CHECK(node.board().magic == k_relay_board_magic);
  CHECK(node.board().asks == 0);
  CHECK(node.board().news == 0);
}

TEST_CASE("without a port a node still reads") {
  const RelayFile file(noise(k_mib));
  RelayNode other;
  const std::uint16_t taken = other.start();
  RelayNode node;
  node.order.relay.ports.first = node.order.relay.ports.last = taken;
  CHECK(node.start() == 0);
  node.set_head();
  node.set_lanes();
  node.ask(file);
  CHECK((read_slot(node, file.bytes.size()) == file.bytes));
}

// A source on a fast file system: the head sees that, and each node reads it for itself.

namespace {

constexpr char k_why[] = "it is fast enough for all 3 nodes (1.0 GiB/s to the first)";

// A file system that gives each file at this rate, by a clock of its own.
OpenOriginal at_rate(std::uint64_t rate, std::atomic<std::uint64_t>* forgotten = nullptr) {
  class Timed : public Original {
   public:
    Timed(std::unique_ptr<Original> original, std::uint64_t rate,
          std::atomic<std::uint64_t>* forgotten)
        : original_(std::move(original)), rate_(rate), forgotten_(forgotten) {}
    Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
      TRY_ASSIGN(const std::size_t count, original_->read_at(offset, into));
      read_ += count;
      return count;
    }
    [[nodiscard]] RelayClock::time_point now() const override {
      return RelayClock::time_point(std::chrono::nanoseconds(read_ * 1'000'000'000 / rate_));
    }
    void forget(std::uint64_t bytes) override {
      if (forgotten_ != nullptr) *forgotten_ = bytes;
    }

   private:
    std::unique_ptr<Original> original_;
    const std::uint64_t rate_;
    std::atomic<std::uint64_t>* forgotten_;
    std::uint64_t read_ = 0;
  };
  return [rate, forgotten](const std::string& path,
                           const RelayIdentity& identity) -> Result<std::unique_ptr<Original>> {
    TRY_ASSIGN(auto original, open_original(path, identity));
    return std::unique_ptr<Original>(std::make_unique<Timed>(std::move(original), rate, forgotten));
  };
}

// No node is given up because its threads wait for a processor.
void three_nodes(RelayOrder& order) {
  order.node_count = 3;
  order.relay.silence_wait_s = order.relay.patience_s = 60;
  order.relay.site_rate_bytes = 4ULL << 30;
}

bool is_left_alone(RelayNode& node) {
  return in_time([&] { return node.is_in(RelaySlotState::over); }) &&
         field_text(node.slot().why) == k_why;
}

}  // namespace

TEST_CASE("three nodes read a fast source for themselves, and the reason is the same on each") {
  const RelayFile file(noise(12 * k_mib));
  std::atomic<std::uint64_t> forgotten = 0;
  RelayRow row(3, 8 * k_mib, [&](std::size_t) { return at_rate(1ULL << 30, &forgotten); });
  row.start(three_nodes);
  row.ask(file);
  for (auto* node : row.all()) CHECK(is_left_alone(*node));
  CHECK(forgotten == 2 * k_mib);
  CHECK(row[0].slot().watermark < file.bytes.size() / 4);
  for (std::size_t i = 1; i < 3; ++i) {
    CHECK(row[i].slot().watermark == 0);
    CHECK(row[i].slot().from_nodes == 0);
    CHECK(row[i].slot().has_left == 0);
  }
}

TEST_CASE(
    "a source that is slow, may only be read slowly, or is small is read once by three nodes") {
  struct Row {
    std::size_t bytes;
    std::uint64_t rate;
    std::uint64_t limit;  // what the first node may read; 0: no limit
  };
  constexpr Row k_rows[] = {
      {12 * k_mib, 16 * k_mib, 0}, {12 * k_mib, 1ULL << 30, 300 * k_mib}, {40'000, 1ULL << 30, 0}};
  for (const Row& source : k_rows) {
    CAPTURE(source.bytes);
    CAPTURE(source.limit);
    const RelayFile file(noise(source.bytes));
    RelayRow row(3, 8 * k_mib, [&source](std::size_t) { return at_rate(source.rate); });
    row.start(three_nodes);
    if (source.limit > 0) row[0].limit_rate(source.limit);
    row.ask(file);
    read_on_all(row.all(), file);
    CHECK(row.from_storage() == file.bytes.size());
  }
}

TEST_CASE("a node that comes later is sent on at once, and so is one whose staging has not asked") {
  const RelayFile file(noise(12 * k_mib));
  RelayRow row(3, 8 * k_mib, [](std::size_t) { return at_rate(1ULL << 30); });
  row.start(three_nodes);
  row[0].ask(file);
  CHECK(is_left_alone(row[0]));
  row[0].close();
  row[2].ask(file);  // the second one asks on its behalf
  CHECK(is_left_alone(row[2]));
  CHECK(is_left_alone(row[1]));
  CHECK(row[1].reader_is(RelayReader::none));
  CHECK(row.from_storage() == row[0].slot().from_storage);
}

TEST_CASE("a node that asks when the slot has another source is sent on at once, too") {
  const Scratch scratch;
  const RelayFile file(scratch / "data", noise(12 * k_mib));
  const RelayFile other(scratch / "other", noise(12 * k_mib, 2));
  RelayRow row(2, 8 * k_mib, [](std::size_t) { return at_rate(1ULL << 30); });
  row.start([](RelayOrder& order) {
    three_nodes(order);
    order.relay.answer_wait_s = 3600;
  });
  row[0].ask(file);
  CHECK(is_left_alone(row[0]));
  row[0].close();
  raise(row[0].board().asks);
  REQUIRE(in_time([&] { return row[0].is_in(RelaySlotState::unused); }));
  row[0].ask(other);  // and its staging does not read it yet
  CHECK(is_left_alone(row[0]));
  row[1].ask(file);
  CHECK(is_left_alone(row[1]));
  CHECK(row[1].slot().from_storage == 0);
  CHECK(row[1].slot().has_left == 0);
}

TEST_CASE("the word for it comes in place of the beginning, with the reason") {
  const RelayFile file(noise(12 * k_mib));
  RelayNode head(8 * k_mib, at_rate(1ULL << 30));
  three_nodes(head.order);
  const auto port = head.start();
  head.set_head();
  head.set_lanes();
  RawPeer peer = raw_connect(port);
  peer.meet_as_client();
  peer.say(RelayMessage::ask, encode_ask({file.path, file.identity, 0}));
  const std::pair expected{RelayMessage::alone, encode_reason(k_why)};
  CHECK((peer.hear() == expected));
}

TEST_CASE("a word that a node does not know ends in its own read of the original") {
  const RelayFile file(noise(3 * k_mib));
  const RawListener listener;
  RelayNode link;
  link.set_link(listener.port);
  link.start();
  link.set_lanes();
  link.ask(file);
  RawPeer peer = listener.accept();
  peer.meet_as_server();
  CHECK(peer.hear().first == RelayMessage::ask);
  peer.send(peer.seal(9, encode_reason("something of a later release")));
  CHECK((read_slot(link, file.bytes.size()) == file.bytes));
  CHECK(link.slot().from_storage == file.bytes.size());
}
