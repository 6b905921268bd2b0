// A staging worker whose sources are relayed: what it reads where, and that its trees are exact
// whatever the relay worker does.
#include <doctest/doctest.h>

#include <random>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/mounts.hpp"
#include "fake_relay.hpp"
#include "stage_run.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_mib = 1 << 20;
constexpr std::uint64_t k_head = 2 * k_mib;  // what recognizing a source reads of it

std::string type_of_file_system(const std::string& path) {
  const Fd here(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const auto mounts = read_mountinfo();
  if (!mounts) return "unknown";
  const auto mount = find_mount(*mounts, mount_of(here.get()));
  return mount ? std::string(mount->type) : "unknown";
}

class RelayedStage : public StageRun {
 public:
  std::optional<FakeRelay> relay;

  explicit RelayedStage(std::uint64_t window = 8 * k_mib) {
    order.has_board = true;
    order.relay_least_bytes = 1;
    order.relay_file_systems = {type_of_file_system(data())};
    order.relay_silence_s = 1;
    order.relay_patience_s = 1;
    meanwhile = [this](const std::atomic<bool>& over, int) { relay->run(over); };
    renew(window);
  }

  // For another run of the worker.
  void renew(std::uint64_t window) {
    relay.emplace(window);
    order.relay_window = window;
    board_fd = relay->board_fd();
    spool_fd = relay->spool_fd();
  }

  // The tree `t`: `mib` MiB in one file that does not compress, and small files.
  void make_tree(unsigned mib) const {
    REQUIRE(in_data("mkdir -p t/a && head -c " + std::to_string(mib) +
                    "M /dev/urandom >t/large && seq 2000 >t/a/b && for i in $(seq 50); do seq $i "
                    ">t/a/$i; done && ln -s b t/a/link") == 0);
  }

  // A tar of it is to be staged.
  void add_tar(unsigned mib) {
    make_tree(mib);
    REQUIRE(in_data("tar cf t.tar t") == 0);
    add("t.tar").destination = "out";
  }

  [[nodiscard]] const ItemRecord& item(std::size_t i = 0) const { return status.items.at(i); }
  [[nodiscard]] bool is_exact() const { return in_job("diff -r --no-dereference out/t ../data/t"); }
  [[nodiscard]] bool is_closed(std::size_t slot) {
    return relay->slot(slot).reader == static_cast<std::uint32_t>(RelayReader::closed);
  }
};

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

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an archive that is relayed is read from the spool") {
  RelayedStage stage(4 * k_mib);
  stage.make_tree(9);
  std::string name = "t.tar";
  SUBCASE("tar") { REQUIRE(stage.in_data("tar cf t.tar t") == 0); }
  SUBCASE("tar, in a ring that is smaller than what is read ahead") {
    stage.renew(k_mib);
    REQUIRE(stage.in_data("tar cf t.tar t") == 0);
  }
  SUBCASE("tar.gz") {
    name = "t.tar.gz";
    REQUIRE(stage.in_data("tar czf t.tar.gz t") == 0);
  }
  SUBCASE("tar.bz2") {
    name = "t.tar.bz2";
    REQUIRE(stage.in_data("tar cjf t.tar.bz2 t") == 0);
  }
  SUBCASE("tar.xz") {
    name = "t.tar.xz";
    REQUIRE(stage.in_data("tar c t | xz -0 >t.tar.xz") == 0);
  }
  SUBCASE("tar.zst") {
    name = "t.tar.zst";
    REQUIRE(stage.in_data("tar c t | zstd -q -1 >t.tar.zst") == 0);
  }
  SUBCASE("cpio") {
    name = "t.cpio";
    REQUIRE(stage.in_data("find t | cpio -o -H newc >t.cpio 2>/dev/null") == 0);
  }
  SUBCASE("zip") {
    name = "t.zip";
    REQUIRE(stage.in_data("zip -qry0 t.zip t") == 0);
  }
  SUBCASE("7z") {
    name = "t.7z";
    REQUIRE(stage.in_data("bsdtar -c -f t.7z --format 7zip --options compression=store t") == 0);
  }
  CAPTURE(name);
  stage.add(name).destination = "out";
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.relay->asked == 1);
  CHECK(stage.item().bytes_from_nodes == stage.item().bytes_total);
  CHECK(stage.item().bytes_from_storage > 0);
  CHECK(stage.item().bytes_from_storage <= k_head);
  CHECK(stage.item().bytes_read == stage.item().bytes_total);
  CHECK(stage.note() == human_bytes(stage.item().bytes_total) + " from node n0");
  CHECK(stage.relay->board().staging_is_over == 1);
  CHECK(stage.relay->recycled == 1);
}

TEST_CASE("a file is copied from the spool alone") {
  RelayedStage stage;
  REQUIRE(stage.in_data("head -c 20000001 /dev/zero >f") == 0);
  stage.add("f");
  stage.relay->disguise = 'x';
  SUBCASE("all that it has is data") {
    REQUIRE(stage.in_data("head -c 20000001 /dev/zero | tr '\\0' z >f && "
                          "head -c 20000001 /dev/zero | tr '\\0' '\\002' >expected") == 0);
  }
  SUBCASE("it has holes, which are kept") {
    REQUIRE(stage.in_data("truncate -s 0 f && truncate -s 40000000 f && "
                          "for at in 0 4095 30000000; do "
                          "printf 1234 | dd of=f bs=1 seek=$at conv=notrunc status=none; done && "
                          "test $(stat -c %b f) -lt 1000 && cp f expected") == 0);
    stage.relay->disguise = 0;
  }
  REQUIRE(stage.run() == 0);
  CHECK(stage.in_job("cmp f ../data/expected"));
  CHECK(stage.in_job("test $(stat -c %b f) -le $(($(stat -c %b ../data/f) + 16))"));
  CHECK(stage.item().bytes_from_nodes > 0);
  CHECK(stage.item().bytes_from_storage <= k_head);
  CHECK(stage.item().bytes_read == stage.item().bytes_total);
  CHECK(stage.item().bytes_written > 0);
}

TEST_CASE("a node that reads the original for the others says nothing of it") {
  RelayedStage stage;
  stage.add_tar(5);
  stage.relay->node = "";
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.item().bytes_from_nodes == 0);
  CHECK(stage.item().bytes_from_storage >= stage.item().bytes_total);
  CHECK(stage.item().bytes_from_storage <= stage.item().bytes_total + k_head);
  CHECK(stage.note().empty());
}

TEST_CASE("where a relay ends, the original is read from there on") {
  RelayedStage stage(4 * k_mib);
  stage.add_tar(9);
  std::string why;
  std::function<void(FakeRelay&, std::size_t)> action;
  SUBCASE("it is over") {
    why = "node n0; was restarted";
    action = [](auto& relay, std::size_t slot) { relay.end(slot, "node n0\nwas restarted"); };
  }
  SUBCASE("this node is let go") {
    why = "this node was slower than the others";
    action = [](auto& relay, std::size_t slot) { relay.let_go(slot); };
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
    CHECK(has(stage.note(), "file system"));
    CHECK(has(stage.note(), why));
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

TEST_CASE("nothing is asked for and nothing is said where a source does not qualify") {
  RelayedStage stage;
  stage.add_tar(3);
  std::string source = "t.tar";
  SUBCASE("it is small") { stage.order.relay_least_bytes = 4 * k_mib; }
  SUBCASE("its file system is not listed") { stage.order.relay_file_systems = {"fuse", "nfs"}; }
  SUBCASE("the spool has no size") { stage.order.relay_window = 0; }
  SUBCASE("there is no board") { stage.order.has_board = false; }
  SUBCASE("it is a directory") {
    stage.request.datasets.clear();
    stage.add("").destination = "out";
  }
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.relay->asked == 0);
  CHECK(stage.item().bytes_from_nodes == 0);
  CHECK(stage.item().bytes_from_storage == 0);
  CHECK(stage.note().empty());
  CHECK(stage.relay->board().staging_is_over == (stage.order.has_board ? 1 : 0));
}

TEST_CASE("a source that ends early gives its slot back") {
  RelayedStage stage;
  stage.make_tree(6);
  REQUIRE(stage.in_data("tar cf t.tar t && printf x | dd of=t.tar bs=1 seek=$((6 * 1024 * 1024 + "
                        "5000)) conv=notrunc status=none && tar c t | zstd -q -1 >t.tar.zst && "
                        "printf xxxxxxxx | dd of=t.tar.zst bs=1 seek=3000000 conv=notrunc "
                        "status=none") == 0);
  stage.add("t.tar.zst").destination = "out";
  stage.relay->recycles = false;
  CHECK(stage.run() == 1);
  CHECK(has(stage.status.cause, "damaged"));
  CHECK(stage.relay->asked == 1);
  CHECK(stage.is_closed(0));
  CHECK(stage.relay->board().staging_is_over == 1);
}

// If it did not stop, it would wait as long as the relay lives.
TEST_CASE("a failure ends the wait of the others for other nodes") {
  RelayedStage stage(256 * k_mib);
  stage.add_tar(6);
  REQUIRE(stage.in_data("tar czf cut.tgz t && truncate -s 4000000 cut.tgz") == 0);
  stage.add("cut.tgz").destination = "cut";
  stage.relay->recycles = false;
  stage.relay->before = [](FakeRelay& relay, std::size_t slot) {
    return has(relay.slot(slot).path, "cut.tgz");
  };
  CHECK(stage.run() == 1);
  CHECK(has(stage.status.cause, "cut off"));
  CHECK(stage.relay->asked == 2);
  CHECK(stage.is_closed(0));
  CHECK(stage.is_closed(1));
}

TEST_CASE("several sources") {
  RelayedStage stage(256 * k_mib);
  stage.make_tree(3);
  REQUIRE(stage.in_data("for i in 1 2 3 4 5; do seq $i 100 >t/own; tar cf s$i.tar t; done && "
                        "zip -qry0 z1.zip t && zip -qry0 z2.zip t") == 0);
  SUBCASE("of one item are told of together") {
    stage.add("s*.tar").destination = "out";
    REQUIRE(stage.run() == 0);
    CHECK(stage.relay->asked == 5);
    CHECK(stage.relay->board().lanes == 2);
    CHECK(
        stage.in_job("for i in 1 2 3 4 5; do seq $i 100 | cmp - out/s$i/t/own || exit 1; "
                     "cmp out/s$i/t/large ../data/t/large || exit 1; done"));
    CHECK(stage.item().bytes_from_nodes == stage.item().bytes_total);
    CHECK(stage.note() == human_bytes(stage.item().bytes_total) + " from node n0");
  }
  SUBCASE("side by side have slots of their own") {
    for (const char* name : {"s1", "s2", "s3"})
      stage.add(name + std::string(".tar")).destination = name;
    stage.add("z1.zip").destination = "z1";
    stage.add("z2.zip").destination = "z2";
    REQUIRE(stage.run() == 0);
    CHECK(stage.relay->asked == 5);
    CHECK(stage.relay->board().lanes == 4);
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(stage.item(i).bytes_from_nodes == stage.item(i).bytes_total);
      CHECK(stage.item(i).bytes_from_storage <= k_head + k_mib);
    }
    CHECK(
        stage.in_job("for i in s1 s2 s3 z1 z2; do cmp $i/t/large ../data/t/large || exit 1; done"));
  }
}

TEST_CASE("a source for which no slot gets free in time is read from the original") {
  RelayedStage stage;
  stage.add_tar(3);
  REQUIRE(stage.in_data("cp t.tar u.tar") == 0);
  stage.add("u.tar").destination = "u";
  std::atomic<bool> may_go = false;
  stage.relay->before = [&](FakeRelay&, std::size_t) { return may_go.load(); };
  // The slot is kept until one of the two is there.
  stage.meanwhile = [&](const std::atomic<bool>& over, int status_fd) {
    std::thread relay([&] { stage.relay->run(over); });
    while (!over && !may_go) {
      const auto now = read_worker_status(status_fd);
      may_go = now && std::any_of(now->items.begin(), now->items.end(), [](const ItemRecord& item) {
                 return state_of(item) == ItemState::done;
               });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    may_go = true;
    relay.join();
  };
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.in_job("diff -r --no-dereference u/t ../data/t"));
  CHECK(stage.relay->asked == 1);
  const std::size_t direct = stage.item(0).bytes_from_nodes == 0 ? 0 : 1;
  CHECK(stage.note(direct) ==
        "read from the file system, not from other nodes: too many sources are relayed at once");
  CHECK(stage.item(direct).bytes_from_storage >= stage.item(direct).bytes_total);
  CHECK(stage.item(1 - direct).bytes_from_nodes == stage.item(1 - direct).bytes_total);
}

TEST_CASE("a board that cannot be used costs nothing but the relay") {
  RelayedStage stage;
  stage.add_tar(3);
  stage.board_fd = stage.spool_fd;
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(has(stage.note(), "not from other nodes: the board of the relay has the wrong size"));
}

TEST_CASE("the spool is admitted with the data") {
  RelayedStage stage;
  stage.add_tar(20);
  const std::uint64_t window = stage.order.relay_window;
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
    CHECK(stage.relay->asked == 0);
    CHECK(stage.relay->board().lanes == 0);
    CHECK(stage.relay->board().staging_is_over == 1);
    CHECK(stage.note() ==
          "read from the file system, not from other nodes: the local disk has no room for that");
    CHECK(stage.item().bytes_from_storage >= stage.item().bytes_total);
  }
  SUBCASE("there is room for neither") {
    stage.room = Amount{15 * k_mib, 10'000};
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause, "t.tar: needs"));
    CHECK(has(stage.status.cause, "of local disk"));
    return;
  }
  CHECK(stage.is_exact());
}

TEST_CASE("the spool is given up for data that find no more room") {
  RelayedStage stage(16 * k_mib);
  stage.make_tree(12);
  REQUIRE(stage.in_data("mkdir d && head -c 12M /dev/urandom >d/f && tar cf t.tar t") == 0);
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
}

// NODESTAGE_RELAY_SEEDS: how many seeds; NODESTAGE_RELAY_SEED: the first.
TEST_CASE("whatever a relay does and when, the trees are exact") {
  RelayedStage stage;
  stage.make_tree(3);
  REQUIRE(stage.in_data("head -c 2M /dev/urandom >t/second && tar cf t.tar t && tar c t | gzip -1 "
                        ">t.tar.gz && zip -qry0 t.zip t && head -c 3000001 /dev/urandom >f") == 0);
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
          relay.let_go(slot);
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
