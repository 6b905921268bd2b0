// Shared directories: their keys, and what of them is kept.
#include <doctest/doctest.h>
#include <fcntl.h>

#include "common/os/wall_clock.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/share/tree_look.hpp"
#include "share_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

struct OneDirectory : ShareRun<StageRun> {
  OneDirectory() {
    REQUIRE(in_data("mkdir -p d/a/b d/e && echo one >d/a/f && echo two >d/a/b/g && echo x >d/x && "
                    "echo y >d/y && ln -s a/f d/link && ln d/x d/a/hard && echo out >out && "
                    "touch -d '2020-01-01' d/a/f d/x d/y") == 0);
    add("d").shared = true;
  }
  DatasetItem& item() { return request.datasets[0]; }
  TreeLook look(unsigned threads, const std::vector<std::string>& never = {}) {
    const Fd fd(::open((data() + "/d").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const EntryFilter filter(0, {}, {});
    SourceTrust trust(never);
    return look_at_tree(data() + "/d", fd.get(), {filter, LinksOut::kept, threads, trust});
  }
};

}  // namespace

TEST_CASE("identify: the same directory has the same key, and says how much is in it") {
  OneDirectory run;
  const std::string key = run.valid_key();
  CHECK(way_of(key) == ShareIdentity::looks);
  CHECK(run.what() == "d");
  CHECK(run.status.items[0].bytes_total == 4 + 4 + 2 + 2 + 2);
  CHECK(run.key() == key);
  run.order.threads = 7;
  CHECK(run.key() == key);
  // What is read sets no other time.
  run.prepare("cat d/a/f d/a/b/g >/dev/null; ls -R d >/dev/null");
  CHECK(run.key() == key);
}

TEST_CASE("identify: whatever changes in a directory changes its key") {
  OneDirectory run;
  run.prepare("setfattr -n user.a -v 1 d/y && mkfifo d/a/fifo");
  const std::string key = run.valid_key();
  std::string change;
  SUBCASE("bytes, with the size and the time as before") {
    change = "printf ONE | dd of=d/a/f conv=notrunc status=none && touch -d 2020-01-01 d/a/f";
  }
  SUBCASE("a file with the same content and time in its place") {
    change = "cp -p d/a/f u && mv u d/a/f";
  }
  SUBCASE("a time") { change = "touch -d 2021-01-01 d/a/b/g"; }
  SUBCASE("a mode") { change = "chmod u+x d/a/b/g"; }
  SUBCASE("a directory's mode") { change = "chmod 700 d/a/b"; }
  SUBCASE("the top's mode") { change = "chmod 750 d"; }
  SUBCASE("a name") { change = "mv d/x d/z"; }
  SUBCASE("two files change their names") { change = "mv d/x z && mv d/y d/x && mv z d/y"; }
  SUBCASE("a link's text") { change = "ln -sfn a/b d/link"; }
  SUBCASE("an empty directory more") { change = "mkdir d/a/b/new"; }
  SUBCASE("an empty directory less") { change = "rmdir d/e"; }
  SUBCASE("a hard link in place of a file") { change = "ln -f d/x d/y"; }
  SUBCASE("another name of a file, elsewhere") { change = "ln d/a/b/g elsewhere"; }
  SUBCASE("an extended attribute") { change = "setfattr -n user.a -v 2 d/y"; }
  SUBCASE("a FIFO less, which no copy has") { change = "rm d/a/fifo"; }
  SUBCASE("a file moved to another directory") { change = "mv d/a/b/g d/e/g"; }
  run.prepare(change);
  const std::string other = run.valid_key();
  CHECK(other != key);
}

TEST_CASE("identify: what is excluded from a directory is not in its key") {
  OneDirectory run;
  run.item().exclude = {"b", "*.log"};
  const std::string key = run.valid_key();
  run.prepare("touch d/a/b/new && chmod 0 d/a/b/g");
  CHECK(run.key() == key);
  run.prepare("touch d/a/f");
  CHECK(run.key() != key);
}

TEST_CASE("identify: what is behind followed links is in a directory's key") {
  OneDirectory run;
  run.prepare(
      "mkdir -p blobs/deep && echo 1 >blobs/1 && echo 2 >blobs/deep/2 && "
      "ln -s ../blobs/1 d/one && ln -s ../../blobs d/a/all && ln -s ../none d/no "
      "&& ln -s .. d/up && ln -s ../blobs blobs/again");
  run.item().links = Links::follow;
  const std::string key = run.valid_key();
  CHECK(run.key() == key);
  std::string change;
  SUBCASE("a file") { change = "touch blobs/1"; }
  SUBCASE("a file in a directory") { change = "touch blobs/deep/2"; }
  SUBCASE("what was not there") { change = "touch none"; }
  run.prepare(change);
  CHECK(run.key() != key);
  run.item().links = Links::keep;
  const std::string kept = run.key();
  run.prepare("touch blobs/1 blobs/deep/2 && rm -f none");
  CHECK(run.key() == kept);
  run.item().links = Links::follow;
  run.order.cache_never = {run.data() + "/blobs"};
  CHECK(run.key().empty());
  CHECK(run.why_not == "this site keeps nothing from " + run.data() + "/blobs");
}

TEST_CASE("identify: a directory that must not be kept, and why") {
  OneDirectory run;
  std::string why;
  SUBCASE("a part that cannot be listed") {
    run.prepare("chmod 300 d/a/b");
    why = run.data() + "/d/a/b: Permission denied";
  }
  SUBCASE("a part that cannot be entered") {
    run.prepare("chmod 600 d/a/b");
    why = run.data() + "/d/a/b/g: Permission denied";
  }
  SUBCASE("never") {
    run.order.cache_never = {run.data()};
    why = "this site keeps nothing from " + run.data();
  }
  SUBCASE("never a part of it") {
    run.order.cache_never = {run.data() + "/d/a/b"};
    why = "this site keeps nothing from " + run.data() + "/d/a/b";
  }
  SUBCASE("changed just now") {
    run.order.cache_min_age_s = 60;
    run.prepare("sleep 0.05 && touch d/a/b/g");  // later than a tick of the clock
    why = run.data() +
          "/d/a/b/g: was changed less than a minute ago; a directory is kept when nothing in it "
          "has changed for 1 min 00 s";
  }
  CHECK(run.key().empty());
  CHECK(run.why_not == why);
  run.prepare("chmod -R u+rwX d");
}

TEST_CASE(
    "identify: files whose times are in the future do not keep a directory from being shared") {
  OneDirectory run;
  run.prepare("touch -d 2100-01-01 d/a/b/g");
  CHECK_MESSAGE(run.key().size() == k_share_key_bytes, run.why_not);
}

TEST_CASE("identify: what is never kept is not kept behind a followed link either") {
  OneDirectory run;
  run.prepare("mkdir -p other/secret && ln -s ../other d/all");
  run.item().links = Links::follow;
  REQUIRE(run.key().size() == k_share_key_bytes);
  run.order.cache_never = {run.data() + "/other/secret"};
  CHECK(run.key().empty());
  CHECK(run.why_not == "this site keeps nothing from " + run.data() + "/other/secret");
}

TEST_CASE("identify: a directory that was just changed says from when on it can be kept") {
  OneDirectory run;
  const std::uint64_t begun = wall_ms();
  run.prepare("touch d/a/b/g");
  run.order.cache_min_age_s = 60;
  CHECK(run.key().empty());
  REQUIRE(run.has_flag(k_item_unsettled));
  CHECK(run.status.items[0].ended_ms > begun + 50'000);
  CHECK(run.status.items[0].ended_ms <= wall_ms() + 60'001);
}

TEST_CASE(
    "a look at a tree counts entries, has any depth, and more names than it lists at a time") {
  OneDirectory run;
  CHECK(run.look(1).entries == 9);
  CHECK(run.look(1).digest == run.look(16).digest);
  CHECK(run.look(2).why_not.empty());
  run.prepare("mkdir d/many && cd d/many && seq 9000 | xargs touch");
  run.prepare(
      "python3 -c \"import os\nos.chdir('d')\nfor i in range(3000): "
      "os.mkdir('deeper'); os.chdir('deeper')\"");
  const TreeLook look = run.look(4);
  CHECK(look.why_not.empty());
  CHECK(look.entries == 9 + 1 + 9000 + 3000);
  CHECK(run.look(1).digest == look.digest);
  run.prepare("rm d/many/8999");
  CHECK(run.look(4).digest != look.digest);
  run.prepare("rm -rf d/deeper");
}

TEST_CASE("the digest of a directory does not depend on the order of its entries") {
  struct statx info {};
  info.stx_mode = S_IFDIR | 0755;
  const auto digest_in = [&](const std::vector<std::string>& names) {
    LookedDirectories directories;
    LookedAt& top = directories.add(nullptr, "", info, LookedAt::As::itself);
    for (const auto& name : names) {
      std::string text;
      add_text(text, name, info);
      top.add({*digest_of(text)});
    }
    ++top.parts;
    LookedAt& below = directories.add(&top, "below", info, LookedAt::As::itself);
    CHECK(directories.end_part(below));
    CHECK(directories.end_part(top));
    return directories.digest();
  };
  CHECK(digest_in({"a", "b", "c"}) == digest_in({"c", "a", "b"}));
  CHECK(digest_in({"a", "b", "c"}) != digest_in({"a", "b"}));
  CHECK(digest_in({"a", "b", "c"}) != digest_in({"a", "b", "d"}));
}

TEST_CASE("a directory is kept as a read-only tree") {
  OneDirectory run;
  const SharedItem decided = run.decide(ShareRole::lead, "d");
  REQUIRE(decided.key.size() == k_share_key_bytes);
  REQUIRE_MESSAGE(run.run() == 0, run.status.cause);
  CHECK(run.note() == k_kept_whole);
  CHECK(run.has_flag(k_item_whole));
  CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + decided.path));
  CHECK(run.in_job("test \"$(stat -c %a d)\" = 500 && test -z \"$(find d ! -type l -perm /222)\""));
  CHECK(run.in_job("test d/x -ef d/a/hard && test \"$(cat d/link d/a/b/g | xargs)\" = 'one two'"));
}

TEST_CASE("a group with a directory in it that is to be kept") {
  OneDirectory run;
  run.item().source = run.data() + "/{d,out}";
  run.item().destination = "all";
  run.decide(ShareRole::lead, "all");
  SUBCASE("unchanged") {
    REQUIRE_MESSAGE(run.run() == 0, run.status.cause);
    CHECK(run.note() == k_kept_whole);
    CHECK(run.in_job("test -z \"$(find all ! -type l -perm /222)\""));
  }
  SUBCASE("a file in the directory is another one") {
    run.prepare("touch d/a/b/g");
    REQUIRE_MESSAGE(run.run() == 0, run.status.cause);
    CHECK_FALSE(run.has_flag(k_item_whole));
  }
}

TEST_CASE("a directory that is changed while it is staged is the job's own") {
  OneDirectory run;
  run.prepare("head -c 3000000 /dev/zero >d/a/z");
  run.decide(ShareRole::lead, "d");
  run.rate = 2'000'000;
  bool is_changed = true;
  std::string change;
  SUBCASE("unchanged") { is_changed = false, change = "true"; }
  SUBCASE("a file is written, with its time as before") {
    change = "printf O | dd of=d/a/f conv=notrunc status=none; touch -d 2020-01-01 d/a/f";
  }
  SUBCASE("a file comes") { change = "touch d/e/new"; }
  SUBCASE("another directory has its name meanwhile") {
    change = "mv d e; cp -r e d; sleep 0.3; rm -r d; mv e d";
  }
  run.prepare(
      "(for i in $(seq 10000); do test ! -e "
      "../job/.nodestage-partial/items/0/one/a/z || break; sleep 0.001; done; " +
      change + ") >/dev/null 2>&1 &");
  REQUIRE_MESSAGE(run.run() == 0, run.status.cause);
  CHECK(run.has_flag(k_item_whole) == !is_changed);
  CHECK(run.note() == (is_changed ? "not shared: it was changed while it was read; it is read-only"
                                  : k_kept_whole));
}
