// A source on a fast file system: the head sees that, and each node reads it for itself.
#include <doctest/doctest.h>

#include "relay_peer.hpp"
#include "relay_run.hpp"

using namespace nodestage;

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

// Three nodes, of which the first one reads a source of that size at that rate, and others have it
// from there. `limit`: what the first one may read; 0: no limit.
void is_read_once(std::size_t bytes, std::uint64_t rate, std::uint64_t limit = 0) {
  const RelayFile file(noise(bytes));
  RelayRow row(3, 8 * k_mib, [rate](std::size_t) { return at_rate(rate); });
  row.start(three_nodes);
  if (limit > 0) row[0].limit_rate(limit);
  row.ask(file);
  read_on_all(row.all(), file);
  CHECK(row.from_storage() == file.bytes.size());
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

TEST_CASE("a slow source is read once by three nodes, with the same settings") {
  is_read_once(12 * k_mib, 16 * k_mib);
}

TEST_CASE("a source that may be read only slowly is read once, however fast it is") {
  is_read_once(12 * k_mib, 1ULL << 30, 300 * k_mib);
}

TEST_CASE("a source of which the first look sees all: those behind have it from the head") {
  is_read_once(40'000, 1ULL << 30);
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
