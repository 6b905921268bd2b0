// Datasets whose source is in several files (the key join).
#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "relayed_nodes.hpp"
#include "relayed_stage.hpp"
#include "share_run.hpp"
#include "stage_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// The tree t, 1 MB that does not compress and small files; and files of it in every form.
constexpr const char* k_make_parts =
    "mkdir -p t/a && head -c 1000000 /dev/urandom >t/large && seq 3000 >t/a/b && for i in $(seq "
    "40); do printf %${i}d 0 >t/a/$i; done && ln -s b t/a/link && tar cf t.tar t && tar czf t.tgz "
    "t && tar --zstd -cf t.tar.zst t && gzip -c t/large >l.gz && "
    "split -b 100k t.tar t.tar. && split -d -n 3 t.tgz t.tgz.part && "
    "split -d -a 1 -b 300k t.tar.zst t.tar.zst- && split -b 300k -d -a 3 t/large large. && "
    "split -b 300k l.gz l.gz.part && zip -qrys 200k z.zip t && zip -qr0ys 64k s.zip t && "
    "7z a -v300k v.7z t >/dev/null && rm t.tar t.tgz t.tar.zst l.gz";

struct JoinedRun : ShareRun<StageRun> {
  explicit JoinedRun(const std::string& command = k_make_parts) : ShareRun(command) {}
  DatasetItem& join(const std::string& glob, const std::string& destination = "") {
    DatasetItem& item = add(glob);
    item.join = true;
    item.destination = destination;
    return item;
  }
};

}  // namespace

TEST_CASE("the parts of one file are staged as that file") {
  struct Row {
    const char* glob;
    const char* what;
    const char* place;
    const char* same;  // in the data directory
  };
  JoinedRun run;
  const Row rows[] = {{"t.tar.a?", "tar in 11 parts", "t", "t"},
                      {"t.tgz.part*", "tar.gz in 3 parts", "t", "t"},
                      {"t.tar.zst-*", "tar.zst in 4 parts", "t", "t"},
                      {"large.*", "file in 4 parts", "large", "t/large"},
                      {"l.gz.part*", "gz in 4 parts", "l", "t/large"},
                      {"z.z*", "zip in 5 parts", "z", "t"},
                      {"s.z*", "zip in 16 parts", "s", "t"},
                      {"v.7z.*", "7z in 4 parts", "v", "t"}};
  for (const Row& row : rows) {
    CAPTURE(row.glob);
    run.request.datasets.clear();
    DatasetItem& item = run.join(row.glob);
    if (std::string(row.glob) == "l.gz.part*") item.extract = Extract::yes;
    REQUIRE(run.run() == 0);
    const bool is_file = std::string(row.what).starts_with("file");
    CHECK(run.note() == (is_file ? "joined of large.000 to large.003" : ""));
    CHECK(run.what() == row.what);
    const std::string place = row.place;
    CHECK(run.status.environment[0] == "NODESTAGE_DATASET=" + run.job() + "/" + place);
    const bool is_tree = std::string(row.same) == "t";
    CHECK(run.in_job("diff -r --no-dereference " + place + (is_tree ? "/t" : "") + " ../data/" +
                     row.same + " && chmod -R u+w " + place + " && rm -r " + place));
    CHECK(run.status.items[0].bytes_read == run.status.items[0].bytes_total);
  }
}

TEST_CASE("keys mean of joined parts what they mean of a file") {
  JoinedRun run;
  SUBCASE("as it is") {
    run.join("t.tgz.part*").extract = Extract::no;
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("cat ../data/t.tgz.part0? | cmp - t.tgz"));
    CHECK(run.in_job("test $(stat -c %a t.tgz) = $(stat -c %a ../data/t.tgz.part00)"));
  }
  SUBCASE("a choice of a zip") {
    DatasetItem& item = run.join("z.z*", "d");
    item.include = {"a"};
    item.strip = 1;
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("diff -r --no-dereference d/a ../data/t/a && test ! -e d/large"));
  }
  SUBCASE("in the background") {
    run.join("v.7z.*").async = true;
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("diff -r --no-dereference v/t ../data/t"));
  }
  SUBCASE("a file that is not there") {
    run.prepare("rm t.tgz.part01");
    run.join("t.tgz.part*").optional = true;
    REQUIRE(run.run() == 0);
    CHECK(has(run.note(), "/t.tgz.part01: this part is missing, and t.tgz.part02 is there"));
  }
}

TEST_CASE("what is odd about the parts is noted, and what is wrong fails by name") {
  struct Row {
    const char* change;
    const char* glob;
    bool is_fault;
    const char* text;
  };
  for (const Row& row :
       {Row{"echo x >t.tgz.part00.md5; echo y >t.tgz.sha256", "t.tgz.*", false,
            "left out, as no part of t.tgz: t.tgz.part00.md5, t.tgz.sha256"},
        Row{"touch -d '2020-01-01' t.tgz.part02", "t.tgz.part*", false,
            "before it: one of them may be of an earlier version of the file"},
        Row{"truncate -s 100000 t.tgz.part01", "t.tgz.part*", true,
            "It was joined of 3 parts, t.tgz.part00 to t.tgz.part02: if another one follows"},
        Row{"split -b 200k -d -a 3 t/large large. && truncate -s 100000 large.001", "large.*",
            false, "the parts are of unequal size: the transfer of large.001 (97.7 KiB) may be"},
        Row{"rm large.003", "large.*", false,
            "joined of large.000 to large.002; large.002 is as large as the others: if another "
            "part follows, transfer it, too"},
        Row{"rm large.000", "large.*", false,
            "joined of large.001 to large.003; `split -d` begins with large.000: if it made them, "
            "transfer that, too"},
        Row{"rm t.tgz.part02", "t.tgz.part*", true, "/t.tgz: cut off "},
        Row{"rm t.tgz.part02", "t.tgz.part*", true, "t.tgz.part00 to t.tgz.part01: if another"},
        Row{"rm v.7z.004", "v.7z.*", true, "/v.7z: "},
        Row{"rm z.z04", "z.z*", true,
            "zip has split it into 5 files, and 4 are here\nTransfer z.z04, too, or write a glob "
            "that matches it"},
        Row{"cp z.z04 z.z05; cp z.z04 z.z06", "z.z*", true,
            "5 files, and 7 are here\nz.z05 to z.z06 are of another archive"},
        Row{"rm z.zip", "z.z*", true, "/z.zip: this part is missing, and z.z04 is there"},
        Row{"rm z.z02", "z.z*", true, "/z.z02: this part is missing, and z.z03 is there"},
        Row{"rm z.z0*", "z.z*", true,
            "is one part of a zip archive in 5 files, and only this one is here\nTransfer z.z01 to "
            "z.z04 to its directory, too, and join all with the key join"},
        Row{":", "z.zip", true, "is one part of a zip archive in several files\nStage the parts"},
        Row{"mkdir large.004", "large.*", true, "large.004: is a directory, and join makes one"},
        Row{":", "t*", true, "the matches are parts of several files"},
        Row{"zip -qrs 64k -Z bzip2 b.zip t", "b.z*", true,
            "members use a rare compression method\nJoin it once: zip -s 0 "},
        Row{"zip -qrs 64k -P x p.zip t", "p.z*", true, "password"}}) {
    const std::string change = row.change;
    const std::string text = row.text;
    CAPTURE(change);
    CAPTURE(text);
    JoinedRun run;
    run.prepare(row.change);
    run.join(row.glob, "d");
    CHECK((run.run() != 0) == row.is_fault);
    CHECK_MESSAGE(has(run.note(), row.text), run.note());
    CHECK(!has(run.note(), "Test it with"));  // of the whole, which is no file
    if (row.is_fault) CHECK(run.in_job("test ! -e d"));
  }
}

TEST_CASE(
    "which parts a file was joined of is said, and no more where nothing tells that one lacks") {
  JoinedRun run("for i in 1 2 3; do seq $i 20 >a.part0$i; done; split -b 7 -d a.part01 x; rm x07");
  run.join("a.part*");
  REQUIRE(run.run() == 0);
  CHECK(run.note() == "joined of a.part01 to a.part03");
  run.request.datasets.clear();
  run.join("x0?");
  REQUIRE(run.run() == 0);
  CHECK(has(run.note(), "joined of x00 to x06; x06 is as large as the others"));
}

TEST_CASE("a part that changes while it is read does no harm") {
  JoinedRun run(
      "head -c 3000000 /dev/urandom >z && tar cf t.tar z && split -b 1000000 t.tar t.tar. && "
      "touch -d 2020-01-01 t.tar.*");
  run.join("t.tar.a*", "d");
  run.rate = 2'000'000;
  const std::string when =
      "(for i in $(seq 10000); do test ! -e ../job/.nodestage-partial/items/0/one/z || break; "
      "sleep 0.001; done; ";
  SUBCASE("it is written again") {
    run.prepare(when + "cp t.tar.ab u && cat u >t.tar.ab) >/dev/null 2>&1 &");
    REQUIRE(run.run() == 0);
    CHECK(run.in_job("cmp d/z ../data/z"));
  }
  SUBCASE("it is cut off") {
    run.prepare(when + "truncate -s 1000 t.tar.ac) >/dev/null 2>&1 &");
    CHECK(run.run() != 0);
    CHECK(run.in_job("test ! -e d"));
  }
  SUBCASE("it is replaced") {
    run.prepare(when + "cp t.tar.aa t.tar.ac.new && mv t.tar.ac.new t.tar.ac) >/dev/null 2>&1 &");
    REQUIRE(run.run() == 0);  // what is open is the whole file
    CHECK(run.in_job("cmp d/z ../data/z"));
  }
}

TEST_CASE("joined parts are kept under a key of all of them") {
  JoinedRun run;
  run.prepare("touch -d 2020-01-01 t.t* z.z*");
  run.join("t.tgz.part*").shared = true;
  const SharedItem decided = run.decide(ShareRole::lead, "t");
  REQUIRE(decided.key.size() == k_share_key_bytes);
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.note() == "shared: kept on this node for your further jobs; it is read-only");
  CHECK(run.valid_key() == decided.key);
  run.prepare("echo x >t.tgz.part01.md5");
  CHECK(run.valid_key() == decided.key);
  run.prepare("touch t.tgz.part01");
  CHECK(run.valid_key() != decided.key);
  run.prepare("rm t.tgz.part01");
  CHECK(run.key() == "");
  CHECK(has(run.why_not, "this part is missing"));
}

TEST_CASE("each part has a slot of the relay while it is read, and no longer") {
  std::uint64_t window = 3 * k_mib;  // for one slot
  SUBCASE("one slot") {}
  SUBCASE("two slots") { window = 4 * k_mib; }
  SUBCASE("many slots") { window = 128 * k_mib; }
  RelayedStage run(window);
  run.order.relay.patience_s = 60;
  run.make_tree(13);
  run.prepare("tar cf t.tar t && split -b 2M t.tar t.tar. && rm t.tar");
  run.add("t.tar.??").destination = "out";
  run.request.datasets[0].join = true;
  REQUIRE(run.run() == 0);
  CHECK(run.is_exact());
  CHECK(run.item().bytes_from_storage <= k_head);
  CHECK(run.item().bytes_from_nodes >= 11 * k_mib);
  CHECK(run.relay->asked + (run.item().bytes_from_storage == k_head ? 1 : 0) == 7);
  CHECK(run.note() == human_bytes(run.item().bytes_from_nodes) + " from node n0");
}

TEST_CASE("joined parts are read by one of three nodes") {
  RelayedNodes nodes(3);
  REQUIRE(nodes[0].stage.in_data(
              "mkdir t && head -c 13M /dev/urandom >t/large && seq 9999 >t/s && tar cf t.tar t && "
              "tar czf t.tgz t && split -b 2M t.tar t.tar. && split -b 2M -d t.tgz t.tgz-") == 0);
  REQUIRE(nodes[0].stage.in_data("zip -qr0s 2m z.zip t") == 0);
  const char* glob = "";
  SUBCASE("a tar") { glob = "t.tar.??"; }
  SUBCASE("a tar.gz") { glob = "t.tgz-*"; }
  SUBCASE("a zip") { glob = "z.z*"; }
  SUBCASE("a file") { glob = "t.tar.a*"; }
  CAPTURE(glob);
  nodes.add(glob, [&](DatasetItem& item) {
    item.join = true;
    if (std::string(glob) == "t.tar.a*") item.extract = Extract::no;
  });
  nodes.start();
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(nodes[i].stage.run() == 0);
    const std::string data = nodes[0].stage.data();
    CHECK(nodes[i].stage.in_job(std::string(glob) == "t.tar.a*" ? "cmp out " + data + "/t.tar"
                                                                : "diff -r out/t " + data + "/t"));
    if (i == 0) continue;
    const bool is_zip = glob[0] == 'z';  // its index is read before
    CHECK(nodes.item(i).bytes_from_nodes > (is_zip ? 8U : 11U) << 20);
    // What a source is known by is read at its start.
    CHECK(nodes.item(i).bytes_from_storage <= (is_zip ? 6U : 3U) << 20);
  }
}
