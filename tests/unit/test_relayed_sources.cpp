// A staging worker whose sources are relayed: what it reads where, and what it tells of that.
#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "relayed_stage.hpp"

using namespace nodestage;

TEST_CASE("an archive that is relayed is read from the spool") {
  struct Row {
    std::string name;
    std::string command;
    std::uint64_t window = 16 * k_mib;  // of which a thread that is held up is not lapped
  };
  const Row k_rows[] = {{"t.tar", "tar cf t.tar t"},
                        {"t.tar", "tar cf t.tar t", k_mib},  // smaller than what is read ahead
                        {"t.tar.gz", "tar czf t.tar.gz t"},
                        {"t.tar.bz2", "tar cjf t.tar.bz2 t"},
                        {"t.tar.xz", "tar c t | xz -0 >t.tar.xz"},
                        {"t.tar.zst", "tar c t | zstd -q -1 >t.tar.zst"},
                        {"t.zip", "zip -qry0 t.zip t"},
                        {"t.7z", "bsdtar -c -f t.7z --format 7zip --options compression=store t"}};
  for (const Row& row : k_rows) {
    CAPTURE(row.name);
    CAPTURE(row.window);
    RelayedStage stage(row.window);
    stage.make_tree(9);
    stage.prepare(row.command);
    stage.add(row.name).destination = "out";
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
}

TEST_CASE("a file is copied from the spool alone") {
  RelayedStage stage;
  stage.prepare("head -c 20000001 /dev/zero >f");
  stage.add("f");
  stage.relay->disguise = 'x';
  SUBCASE("all that it has is data") {
    stage.prepare(
        "head -c 20000001 /dev/zero | tr '\\0' z >f && "
        "head -c 20000001 /dev/zero | tr '\\0' '\\002' >expected");
  }
  SUBCASE("it has holes, which are kept") {
    stage.prepare(
        "truncate -s 0 f && truncate -s 40000000 f && "
        "for at in 0 4095 30000000; do "
        "printf 1234 | dd of=f bs=1 seek=$at conv=notrunc status=none; done && "
        "test $(stat -c %b f) -lt 1000 && cp f expected");
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

TEST_CASE("nothing is asked for and nothing is said where a source does not qualify") {
  RelayedStage stage;
  stage.add_tar(3);
  std::string source = "t.tar";
  SUBCASE("it is small") { stage.order.relay.least_bytes = 4 * k_mib; }
  SUBCASE("its file system is not listed") { stage.order.relay.file_systems = {"fuse", "nfs"}; }
  SUBCASE("the spool has no size") { stage.order.relay.window_bytes = 0; }
  SUBCASE("there is no board") { stage.order.has_board = false; }
  REQUIRE(stage.run() == 0);
  CHECK(stage.is_exact());
  CHECK(stage.relay->asked + stage.relay->asked_directories == 0);
  CHECK(stage.item().bytes_from_nodes == 0);
  CHECK(stage.item().bytes_from_storage == 0);
  CHECK(stage.note().empty());
  CHECK(stage.relay->board().staging_is_over == (stage.order.has_board ? 1 : 0));
}

TEST_CASE("a source that ends early gives its slot back") {
  RelayedStage stage;
  stage.make_tree(6);
  stage.prepare(
      "tar cf t.tar t && printf x | dd of=t.tar bs=1 seek=$((6 * 1024 * 1024 + "
      "5000)) conv=notrunc status=none && tar c t | zstd -q -1 >t.tar.zst && "
      "printf xxxxxxxx | dd of=t.tar.zst bs=1 seek=3000000 conv=notrunc "
      "status=none");
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
  stage.prepare("tar czf cut.tgz t && truncate -s 4000000 cut.tgz");
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

TEST_CASE("sources of one item and of several items are relayed") {
  RelayedStage stage(256 * k_mib);
  stage.make_tree(3);
  stage.prepare(
      "for i in 1 2 3 4 5; do seq $i 100 >t/own; tar cf s$i.tar t; done && "
      "zip -qry0 z1.zip t && zip -qry0 z2.zip t");
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
  stage.prepare("cp t.tar u.tar");
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
