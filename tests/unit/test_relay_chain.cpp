// Nodes of a job in a row: each gets every byte, and one reads the original.
#include <doctest/doctest.h>

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
