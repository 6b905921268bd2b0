#include <doctest/doctest.h>

#include <functional>

#include "common/os/wall_clock.hpp"
#include "daemon/worker/share/dataset_key.hpp"
#include "daemon/worker/share/share_key.hpp"
#include "key_values.hpp"
#include "share_run.hpp"

using namespace nodestage;

namespace {

struct OneFile : ShareRun<StageRun> {
  OneFile() {
    REQUIRE(in_data("mkdir d && echo one >d/f && tar cf t.tar d && touch -d '2020-01-01' t.tar") ==
            0);
    add("t.tar").shared = true;
  }
  DatasetItem& item() { return request.datasets[0]; }
};

}  // namespace

TEST_CASE("identify: the same file has the same key, and nothing is written") {
  OneFile run;
  const std::string key = run.valid_key();
  CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(run.why_not.empty());
  CHECK(run.has_flag(k_item_shared));
  CHECK(run.what() == "t");
  CHECK(run.status.items[0].bytes_total == 10240);
  CHECK(field_text(run.status.items[0].source) == run.data() + "/t.tar");
  CHECK(run.key() == key);
  CHECK(run.in_job("test -z \"$(ls -A)\""));
}

TEST_CASE("identify: items have records in the request's order, with or without `shared`") {
  OneFile run;
  run.add("t.tar").destination = "other";
  run.add("t.tar").destination = "below/third";
  run.request.datasets[2].shared = true;
  const std::string key = run.key(2);
  CHECK(run.what(2) == "third");
  CHECK(run.status.items.size() == 3);
  CHECK_FALSE(run.has_flag(k_item_shared, 1));
  CHECK(field_text(run.status.items[1].name).empty());
  CHECK(run.state(1) == ItemState::done);
  CHECK(key != run.key(0));
}

TEST_CASE("identify: whatever changes the tree changes the key") {
  OneFile run;
  const std::string key = run.key();
  std::function<void()> change;
  SUBCASE("destination") { run.item().destination = "e"; }
  SUBCASE("extract") { run.item().extract = Extract::no; }
  SUBCASE("extract, whatever its name") { run.item().extract = Extract::yes; }
  SUBCASE("strip") { run.item().strip = 1; }
  SUBCASE("include") { run.item().include = {"*"}; }
  SUBCASE("exclude") { run.item().exclude = {"*x"}; }
  SUBCASE("eof") { run.item().eof = TarEnd::optional; }
  SUBCASE("links") { run.item().links = Links::follow; }
  SUBCASE("umask") { run.request.umask = 077; }
  SUBCASE("owner") { run.order.uid = 7; }
  SUBCASE("escaping") { run.order.extract.escaping = Escaping::skip; }
  SUBCASE("special") { run.order.extract.special = Special::keep; }
  SUBCASE("max_entries") { run.order.extract.max_entries = 10; }
  SUBCASE("max_ratio") { run.order.extract.max_ratio = 10; }
  SUBCASE("xattrs") { run.order.extract.xattrs = true; }
  SUBCASE("time") { run.prepare("touch -d 2020-01-02 t.tar"); }
  SUBCASE("mode, which is not in the key, but changes the ctime") {
    run.prepare("chmod 600 t.tar");
  }
  SUBCASE("another file with the same content and time") {
    run.prepare("cp -p t.tar u && mv u t.tar");
  }
  SUBCASE("in-place rewrite of the same size with the old mtime") {
    run.prepare(
        "printf x | dd of=t.tar bs=1 seek=600 conv=notrunc status=none && "
        "touch -d 2020-01-01 t.tar");
  }
  const std::string other = run.valid_key();
  CHECK(other != key);
}

TEST_CASE("identify: the default destination is the one that staging finds") {
  ShareRun<StageRun> run(
      "echo x >f.h5; echo x >g; gzip -k g; tar czf t.tar.gz f.h5; "
      "touch -d 2020-01-01 *");
  std::string source;
  std::string name;
  Extract extract = Extract::automatic;
  SUBCASE("file") { source = "f.h5", name = "f.h5"; }
  SUBCASE("compressed file") { source = "g.gz", name = "g.gz"; }
  SUBCASE("archive") { source = "t.tar.gz", name = "t"; }
  SUBCASE("archive as it is") { source = "t.tar.gz", name = "t.tar.gz", extract = Extract::no; }
  run.add(source).shared = true;
  run.request.datasets[0].extract = extract;
  CHECK(run.key().size() == k_share_key_bytes);
  CHECK(run.what() == name);
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("test -e " + name));
}

TEST_CASE("identify: all matches of a glob are in the key") {
  ShareRun<StageRun> run("for i in 1 2; do echo $i >f$i; done; touch -d 2020-01-01 f?");
  run.add("f*").shared = true;
  CHECK(run.key().empty());
  CHECK(run.why_not.find("one destination") != std::string::npos);
  run.request.datasets[0].destination = "all";
  const std::string key = run.valid_key();
  CHECK(run.what() == "all");
  CHECK(run.status.items[0].bytes_total == 4);
  SUBCASE("one more") { run.prepare("touch -d 2020-01-01 f3"); }
  SUBCASE("another name") { run.prepare("mv f1 f0"); }
  SUBCASE("one changed") { run.prepare("touch -d 2021-01-01 f2"); }
  CHECK(run.key() != key);
}

TEST_CASE("identify: what must not be kept, and why") {
  struct Row {
    const char* what;
    const char* prepare;  // in the data directory, which is @ in what follows
    std::function<void(OneFile&)> set;
    const char* why;
  };
  const auto age = [](OneFile& run) { run.order.cache_min_age_s = 60; };
  const auto never = [](const char* path) {
    return [path](OneFile& run) { run.order.cache_never = {"/elsewhere", run.data() + path}; };
  };
  const auto source = [](const char* name) {
    return [name](OneFile& run) { run.item().source = run.data() + name; };
  };
  const auto destination = [](const std::string& name) {
    return [name](OneFile& run) { run.item().destination = name; };
  };
  const std::vector<Row> rows{
      // Less than 64 MiB would be known by their bytes.
      {"just changed", "truncate -s 65M t.tar", age, "it was changed less than a minute ago"},
      {"an old mtime does not help", "truncate -s 65M t.tar && touch -d 2020-01-01 t.tar", age,
       "it was changed less than a minute ago"},
      {"a FIFO", "mkfifo p", source("/p"), "it is not a regular file"},
      {"no cache", "true", [](OneFile& run) { run.order.cache.clear(); },
       "this node keeps no shared data"},
      {"never, by the given path", "true", never(""), "this site keeps nothing from @"},
      {"never, by the path behind a link",
       "mkdir secret && mv t.tar secret && ln -s secret/t.tar t.tar", never("/secret/"),
       "this site keeps nothing from @/secret/"},
      {"never, and the setting names a link", "ln -s . link", never("/link"),
       "this site keeps nothing from @/link"},
      {"does not exist", "true", source("/none"), "@/none: No such file or directory"},
      {"must not be read any more", "chmod 0 t.tar", [](OneFile&) {}, "@/t.tar: Permission denied"},
      {"a name that the cache needs", "true", destination("record"),
       "its destination cannot have the name 'record'"},
      {"a name that cannot be reported", "true", destination(std::string(48, 'n')),
       "its destination's name is too long for that, or not printable"}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    OneFile run;
    run.prepare(row.prepare);
    row.set(run);
    std::string why = row.why;
    if (const auto at = why.find('@'); at != std::string::npos) why.replace(at, 1, run.data());
    CHECK(run.key().empty());
    CHECK(run.why_not == why);
    CHECK(run.state() == ItemState::done);
    CHECK(run.has_flag(k_item_shared));
  }
}

TEST_CASE("identify: what was changed lately is known by its bytes, if they are few") {
  OneFile run;
  const std::string by_looks = run.key();
  CHECK(way_of(by_looks) == ShareIdentity::looks);
  run.order.cache_min_age_s = 60;
  const std::string key = run.valid_key();
  CHECK(way_of(key) == ShareIdentity::bytes);
  CHECK_FALSE(run.has_flag(k_item_unsettled));
  SUBCASE("which file it is does not count") {
    run.prepare("cp -p t.tar u && mv u t.tar");
    CHECK(run.key() == key);
  }
  SUBCASE("what a copy takes over does") {
    run.prepare("chmod u+x t.tar");
    const std::string executable = run.key();
    CHECK(executable != key);
    run.prepare("touch t.tar");
    CHECK(run.key() != executable);
  }
  SUBCASE("a byte does") {
    run.prepare("printf x | dd of=t.tar bs=1 seek=10239 conv=notrunc status=none");
    CHECK(run.key() != key);
  }
  SUBCASE("several files have one bound") {
    run.prepare("mkdir w && truncate -s 40M w/a w/b");
    run.item().source = run.data() + "/w/*";
    run.item().destination = "all";
    CHECK(run.key().empty());
    CHECK(run.has_flag(k_item_unsettled));
  }
}

TEST_CASE("identify: larger ones say from when on they can be kept") {
  OneFile run;
  run.prepare("truncate -s 65M t.tar");
  const std::uint64_t begun = wall_ms();
  run.order.cache_min_age_s = 60;
  CHECK(run.key().empty());
  REQUIRE(run.has_flag(k_item_unsettled));
  CHECK(run.status.items[0].ended_ms > begun + 50'000);
  CHECK(run.status.items[0].ended_ms <= wall_ms() + 60'001);
  run.prepare("touch -d 2100-01-01 t.tar");  // as archives can say
  CHECK(run.key().empty());
  CHECK(run.has_flag(k_item_unsettled));
  run.order.cache_min_age_s = 0;
  CHECK(run.key().size() == k_share_key_bytes);
}

TEST_CASE("a directory beside one that is never kept is not meant") {
  OneFile run;
  run.order.cache_never = {run.data().substr(0, run.data().size() - 1)};
  CHECK(run.key().size() == k_share_key_bytes);
}

TEST_CASE("file systems that do not report reliably when a file changes") {
  const std::string mounts =
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "22 21 0:40 / /a rw,nosuid,nodev - fuse.sshfs host:/ rw,user_id=1000,group_id=1000\n"
      "23 21 0:41 / /b rw - fuse.cvmfs2 cvmfs2 ro,user_id=0,group_id=0,allow_other\n"
      "24 21 0:42 / /c rw - nfs4 server:/x rw,vers=4.2,nocto,proto=tcp\n"
      "25 21 0:43 / /d rw - nfs server:/x rw,vers=3,proto=tcp\n"
      "26 21 0:44 / /e rw - fuse host:/ rw,user_id=01,user_id=1000\n";
  CHECK(reports_changes(mounts, "21"));
  CHECK_FALSE(reports_changes(mounts, "22"));
  CHECK(reports_changes(mounts, "23"));
  CHECK_FALSE(reports_changes(mounts, "24"));
  CHECK(reports_changes(mounts, "25"));
  CHECK_FALSE(reports_changes(mounts, "26"));
  CHECK_FALSE(reports_changes(mounts, "2"));
  CHECK_FALSE(reports_changes(mounts, ""));
}

TEST_CASE("a file system without a number has that of what is mounted") {
  const std::string mounts =
      "21 1 0:40 / /a rw - nfs4 server:/x rw,vers=4.2\n"
      "22 1 0:41 / /b rw - nfs4 server:/x rw,vers=4.1\n"
      "23 1 0:40 / /a rw - nfs4 other:/x rw,vers=4.2\n"
      "24 1 0:40 / /a rw - nfs server:/x rw,vers=3\n";
  const std::uint64_t number = number_of_mounted(mounts, "21");
  CHECK(number != 0);
  CHECK(number_of_mounted(mounts, "22") == number);
  CHECK(number_of_mounted(mounts, "23") != number);
  CHECK(number_of_mounted(mounts, "24") != number);
  CHECK(number_of_mounted(mounts, "25") == 0);
}

TEST_CASE("identify: the site says how long a source must have been as it is") {
  OneFile run;
  run.order.cache_min_age_s = 0;
  CHECK(way_of(run.key()) == ShareIdentity::looks);
  run.order.cache_min_age_s = 100U * 365 * 86'400;
  CHECK(way_of(run.key()) == ShareIdentity::bytes);  // it is small
}

// The share key of a dataset without its sources.

namespace {

std::string key_of(const DatasetItem& item) {
  IdentifyOrder order;
  order.cache = "/cache";
  order.uid = 1000;
  return dataset_key(item, false, "/p/data.tar", {order}).identity().key;
}

}  // namespace

TEST_CASE("the keys of shared datasets do not change") {
  DatasetItem item;
  CHECK(key_of(item) == "16ec4b65b3ca7c95f113591d2610a4c0");
  item.extract = Extract::no;
  CHECK(key_of(item) == "3638fcc999201e28dffc355c19bebf92");
  item.extract = Extract::yes;
  item.strip = 2;
  item.include = {"*.png", "b/*"};
  item.exclude = {"*.tmp"};
  item.eof = TarEnd::optional;
  item.links = Links::follow;
  CHECK(key_of(item) == "5060b22973d354fb8818ee460eee4132");
}

TEST_CASE("a key that changes the tree changes the key of the dataset, and no other does") {
  const DatasetItem named{.source = "", .destination = "data"};  // otherwise mount gives the name
  const std::string plain = key_of(named);
  for (const auto& row : Option<DatasetItem>::keys) {
    CAPTURE(row.name);
    DatasetItem item = named;
    set_other(item, row);
    CHECK((key_of(item) != plain) == changes_tree(row.tree));
  }
}
