// A staging worker whose relay ends, lies, is slow or finds no room: its trees are exact all the
// same.
#include <doctest/doctest.h>

#include <random>

#include "common/text/parsing.hpp"
#include "relayed_stage.hpp"
#include "tree_records.hpp"

using namespace nodestage;

namespace {

// Calls `action` once, when `percent` of a source are there.
auto at_percent(std::uint64_t percent, const std::function<void(FakeRelay&, std::size_t)>& action) {
  return [percent, action, is_done = false](FakeRelay& relay, std::size_t slot) mutable {
    const RelaySlot& at = relay.slot(slot);
    if (is_done || at.watermark < at.identity.size * percent / 100) return true;
    is_done = true;
    action(relay, slot);
    return true;
  };
}

unsigned number_in(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? parse_number<unsigned>(text).value_or(otherwise) : otherwise;
}

}  // namespace

TEST_CASE("where a relay ends, the original is read from there on") {
  RelayedStage stage(4 * k_mib);
  stage.add_tar(9);
  std::string why;
  std::function<void(FakeRelay&, std::size_t)> action;
  SUBCASE("it is over") {
    why = "node n0; was restarted";
    action = [](auto& relay, std::size_t slot) { relay.end(slot, "node n0\nwas restarted"); };
  }
  SUBCASE("this node is dropped") {
    why = "this node was slower than the others";
    action = [](auto& relay, std::size_t slot) { relay.dropped(slot); };
  }
  SUBCASE("it is turned off") {
    why = "an older daemon";
    action = [](auto& relay, std::size_t) {
      relay.turn_off("an older daemon");
      relay.is_silent = true;
    };
  }
  SUBCASE("it says nothing any more") {
    why = "the process that relays does not answer";
    stage.order.relay.silence_wait_s = 1;
    action = [](auto& relay, std::size_t) { relay.is_silent = true; };
  }
  SUBCASE("its spool cannot be read any more") {
    why = "the spool cannot be read: Input/output error";
    action = [](auto& relay, std::size_t slot) {
      RelaySlot& at = relay.slot(slot);
      static_cast<void>(!::ftruncate(relay.spool_fd(), 0));
      at.watermark = at.identity.size;
      raise(relay.board().news);
      relay.is_silent = true;
    };
  }
  for (const unsigned percent : {0U, 50U, 99U}) {
    CAPTURE(percent);
    REQUIRE(stage.in_job("rm -rf out"));
    stage.renew(4 * k_mib);
    stage.relay->before = at_percent(percent, action);
    REQUIRE(stage.run() == 0);
    CHECK(stage.is_exact());
    CAPTURE(stage.note());
    check_has(stage.note(), {"file system", why});
    const ItemRecord& item = stage.item();
    CHECK(item.bytes_from_storage >= item.bytes_total * (100 - percent) / 100);
    CHECK(item.bytes_from_storage <= item.bytes_total + k_head);
    CHECK(item.bytes_read == item.bytes_total);
    if (percent > 0) CHECK(item.bytes_from_nodes > 0);
  }
}

TEST_CASE("what is overwritten before it was read is read from the original") {
  RelayedStage stage;
  stage.add_tar(20);
  stage.relay->before = at_percent(0, [](FakeRelay& relay, std::size_t slot) {
    RelaySlot& at = relay.slot(slot);
    at.low = at.watermark = at.identity.size - k_mib;
  });
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.item().bytes_from_storage >= stage.item().bytes_total - k_mib);
  CHECK(has(stage.note(), "this node was slower than the others"));
}

TEST_CASE("a board that cannot be used costs nothing but the relay") {
  RelayedStage stage;
  stage.add_tar(3);
  stage.board_fd = stage.spool_fd;
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(has(stage.note(), "not from other nodes: the board of the relay has the wrong size"));
}

TEST_CASE("what comes of a directory and cannot be believed or made here is copied here") {
  using namespace tree_records;
  RelayedStage stage;
  stage.make_tree(1);
  stage.add("t").destination = "out";
  std::string what = file("f", 3) + data(0, 3) + "abc";
  std::string why;
  std::size_t tries = 1;
  SUBCASE("it is too deep") {
    what += directory(deep(5000));
    why = "what another node sent of the directory makes no sense";
    tries = 2;
  }
  SUBCASE("a link to nothing") {
    what += hard_link("g", "nothing");
    why = "is a hard link to 'nothing', which does not exist";
  }
  SUBCASE("a file below a file") {
    what += file("f/g");
    why = "is below a name that is a file";
  }
  SUBCASE("more links than a file can have here") {
    // ext4 has at most 65,000.
    const std::string type = type_of_file_system(stage.job());
    if (type != "ext4") return;
    for (int i = 0; i < 65'000; ++i) what += hard_link("l" + std::to_string(i), "f");
    why = "Too many links";
  }
  stage.relay->stream = what + end();
  CHECK(stage.run() == 0);
  CAPTURE(stage.note());
  CHECK(stage.in_job("diff -r --no-dereference out ../data/t"));
  CHECK(stage.relay->asked_directories == tries);
  CHECK(has(stage.note(), why));
  CHECK(stage.item().bytes_from_storage >= k_mib);
}

TEST_CASE("the spool is admitted with the data") {
  RelayedStage stage;
  stage.add_tar(20);
  const std::uint64_t window = stage.order.relay.window_bytes;
  const std::uint64_t data = 20 * k_mib + 100 * 10240;
  SUBCASE("there is room for both") {
    stage.room = Amount{data + window, 10'000};
    REQUIRE(stage.run() == 0);
    CHECK(stage.claims.at(0).least.bytes >= 20 * k_mib + window);
    CHECK(stage.relay->asked == 1);
    CHECK(stage.item().bytes_from_nodes == stage.item().bytes_total);
  }
  SUBCASE("there is room for the data alone") {
    stage.room = Amount{data + window / 2, 10'000};
    REQUIRE(stage.run() == 0);
    CHECK(stage.claims.at(0).least.bytes == stage.claims.at(1).least.bytes + window);
    CHECK(stage.relay->asked + stage.relay->asked_directories == 0);
    CHECK(stage.relay->board().lanes == 0);
    CHECK(stage.relay->board().staging_is_over == 1);
    CHECK(stage.note() ==
          "read from the file system, not from other nodes: the local disk has no room for that");
    CHECK(stage.item().bytes_from_storage >= stage.item().bytes_total);
  }
  SUBCASE("there is room for neither") {
    stage.room = Amount{15 * k_mib, 10'000};
    CHECK(stage.run() == 1);
    check_has(stage.status.cause, {"t.tar: needs", "of local disk"});
    return;
  }
  CHECK(stage.is_exact());
}

TEST_CASE("a directory is relayed with a small spool where the disk has no room for a large one") {
  using namespace tree_records;
  RelayedStage stage(256 * k_mib);
  stage.prepare("mkdir t && printf abc >t/f");
  stage.add("t").destination = "out";
  stage.relay->stream = file("f", 3) + data(0, 3) + "abc" + end();
  std::size_t asked = 1;
  SUBCASE("there is room for all that it can take") {
    stage.room = Amount{300 * k_mib, 1000};
    REQUIRE(stage.run() == 0);
    CHECK(stage.claims.at(0).least.bytes == 256 * k_mib);
    CHECK(stage.relay->board().lanes == 1);
  }
  SUBCASE("there is room for a small ring") {
    stage.room = Amount{100 * k_mib, 1000};
    REQUIRE(stage.run() == 0);
    CHECK(stage.claims.at(0).least.bytes == 256 * k_mib);
    CHECK(stage.claims.at(1).least.bytes == 64 * k_mib);
    CHECK(stage.relay->ring() == 64 * k_mib);
  }
  SUBCASE("there is room for no ring") {
    stage.room = Amount{50 * k_mib, 1000};
    REQUIRE(stage.run() == 0);
    CHECK(has(stage.note(), "the local disk has no room for that"));
    asked = 0;
  }
  CHECK(stage.relay->asked_directories == asked);
  CHECK(stage.in_job("diff -r out ../data/t"));
}

TEST_CASE("the spool is given up for data that find no more room") {
  RelayedStage stage(16 * k_mib);
  stage.make_tree(12);
  stage.prepare("mkdir d && head -c 12M /dev/urandom >d/f && tar cf t.tar t");
  stage.add("t.tar").destination = "out";
  stage.add("d");
  // Its size is not known before.
  stage.room = Amount{32 * k_mib, 10'000};
  stage.order.threads = 1;
  bool is_emptied = false;
  stage.meanwhile = [&](const std::atomic<bool>& over, int) {
    FakeRelay& relay = *stage.relay;
    std::atomic<bool> is_off = false;
    std::thread runs([&] { relay.run(is_off); });
    while (!over && relay.board().is_off == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    is_off = true;
    runs.join();
    if (over) return;
    struct stat info {};
    REQUIRE(::fstat(relay.spool_fd(), &info) == 0);
    stage.freed = static_cast<std::uint64_t>(info.st_blocks) * 512;
    is_emptied = ::ftruncate(relay.spool_fd(), 0) == 0;
    ++relay.board().beat;
    raise(relay.board().news);
  };
  CHECK(stage.run() == 0);
  CHECK(is_emptied);
  CHECK(stage.is_exact());
  CHECK(stage.in_job("cmp d/f ../data/d/f"));
  CHECK(stage.relay->asked == 1);
  // Twice if its first stream had begun when the spool was given up.
  CHECK((stage.relay->asked_directories == 1 || stage.relay->asked_directories == 2));
}

// NODESTAGE_RELAY_SEEDS: how many seeds; NODESTAGE_RELAY_SEED: the first.
TEST_CASE("whatever a relay does and when, the trees are exact") {
  RelayedStage stage;
  stage.order.relay.silence_wait_s = 1;
  stage.make_tree(3);
  stage.prepare(
      "head -c 2M /dev/urandom >t/second && tar cf t.tar t && tar c t | gzip -1 "
      ">t.tar.gz && zip -qry0 t.zip t && head -c 3000001 /dev/urandom >f");
  stage.add("t.tar").destination = "o1";
  stage.add("t.tar.gz").destination = "o2";
  stage.add("t.zip").destination = "o3";
  stage.add("f");
  const unsigned seeds = number_in("NODESTAGE_RELAY_SEEDS", 8);
  const unsigned begin = number_in("NODESTAGE_RELAY_SEED", 1);
  std::uint64_t from_nodes = 0;
  for (unsigned seed = begin; seed < begin + seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto one_in = [&random](unsigned n) { return random() % n == 0; };
    stage.renew((1 + random() % 4) * (one_in(2) ? k_mib : 64 * k_mib));
    stage.order.threads = static_cast<unsigned>(1 + random() % 4);
    stage.relay->block = std::size_t{4096} << random() % 6;
    stage.relay->recycles = !one_in(5);
    const auto trouble = static_cast<unsigned>(1 + random() % 300);
    stage.relay->before = [&](FakeRelay& relay, std::size_t slot) {
      if (!one_in(trouble)) return true;
      const RelaySlot& at = relay.slot(slot);
      switch (random() % 16) {
        case 0:
          relay.end(slot, "whatever");
          return false;
        case 1:
          relay.dropped(slot);
          return true;
        case 2:
          if (one_in(8)) relay.turn_off("who knows");
          return true;
        case 3:
          relay.is_silent = one_in(40);
          return true;
        case 4:
          std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
          return true;
        case 5:
        case 6:
        case 7:
          for (auto blocks = random() % 200; blocks > 0 && at.watermark < at.identity.size;
               --blocks)
            relay.fill(slot);
          return true;
        default:
          return false;
      }
    };
    REQUIRE(stage.run() == 0);
    for (std::size_t i = 0; i < 4; ++i) from_nodes += stage.item(i).bytes_from_nodes;
    REQUIRE(
        stage.in_job("for i in 1 2 3; do diff -r --no-dereference o$i/t ../data/t || exit 1; "
                     "done; cmp f ../data/f && rm -rf o? f"));
  }
  CHECK(from_nodes > 0);
}
