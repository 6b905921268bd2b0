#include <doctest/doctest.h>

#include <functional>

#include "common/talk/summary.hpp"
#include "share_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// "a" has no entry of its own in the archive, "b" is open to all, "c" may not be read.
struct OneArchive : ShareRun<StageRun> {
  OneArchive() {
    REQUIRE(in_data("umask 0; mkdir -p d/a d/b d/c && echo 1 >d/a/one && echo 2 >d/b/two && "
                    "ln d/b/two d/b/hard && ln -s two d/b/link && chmod 777 d/b d/b/two && "
                    "tar cf t.tar d/a/one d/b && tar rf t.tar --no-recursion --mode=311 d/c && "
                    "touch -d '2020-01-01' t.tar") == 0);
    add("t.tar").shared = true;
  }
  // The modes of what is in a directory of the job, by name.
  bool modes_are(const std::string& name, const std::string& modes) {
    return in_job("test \"$(find " + name +
                  "/ ! -type l -printf '%m ' | tr ' ' '\\n' | sort -u | xargs)\" = '" + modes +
                  "'");
  }
};

}  // namespace

TEST_CASE("a shared archive has no write bits, whoever stages it") {
  OneArchive run;
  run.request.umask = 0;
  SUBCASE("no daemon decides") {}
  SUBCASE("own") { run.decide(ShareRole::own, "t"); }
  SUBCASE("lead") { run.decide(ShareRole::lead, "t"); }
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("test \"$(stat -c %a t)\" = 500"));
  CHECK(run.modes_are("t/d", "444 511 555"));
  CHECK(
      run.in_job("cd t/d && test b/two -ef b/hard && test \"$(cat a/one b/link | xargs)\" = '1 2' "
                 "&& test \"$(stat -c %a a b c b/two a/one | xargs)\" = '555 555 511 555 444'"));
  CHECK(run.has_flag(k_item_shared));
  if (run.order.shared.empty())
    CHECK(run.note() ==
          "not shared: its turn to be looked at did not come in time; it is read-only");
}

TEST_CASE("shared archives of other formats have no write bits") {
  ShareRun<StageRun> run;
  std::string file;
  std::string how;
  SUBCASE("tar with its top directory") { file = "x.tar", how = "tar cf x.tar -C d ."; }
  SUBCASE("zip") { file = "x.zip", how = "bsdtar --format zip -cf x.zip -C d a b"; }
  SUBCASE("7z") { file = "x.7z", how = "bsdtar --format 7zip -cf x.7z -C d a b"; }
  run.prepare(
      "mkdir -p d/a d/b/c && echo 1 >d/a/f && echo 2 >d/b/c/f && "
      "ln d/a/f d/a/hard && chmod -R a+rwX d && " +
      how);
  run.add(file).shared = true;
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("test -z \"$(find x ! -type l -perm /222)\""));
  CHECK(run.in_job("test \"$(cat x/a/f x/a/hard x/b/c/f | xargs)\" = '1 1 2'"));
}

TEST_CASE("what is not shared keeps its write bits") {
  OneArchive run;
  run.request.datasets[0].shared = false;
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("test -w t && test -w t/d/a && test -w t/d/b/two && touch t/d/b/new"));
  CHECK_FALSE(run.has_flag(k_item_shared));
}

TEST_CASE("a shared file, a group, and a directory have no write bits") {
  ShareRun<StageRun> run(
      "umask 0; echo 1 >f1; echo 2 >f2; mkdir -p d/e; echo 3 >d/e/f; "
      "tar cf f3.tar d; touch -d 2020-01-01 f*; chmod 777 f1");
  run.add("f1").shared = true;
  run.add("f*").shared = true;
  run.request.datasets[1].destination = "all";
  run.add("d").shared = true;
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("test \"$(stat -c %a f1 all d | xargs)\" = '500 500 500'"));
  CHECK(
      run.in_job("test \"$(stat -c %a all/f1 all/f2 all/f3 all/f3/d/e d/e d/e/f | xargs)\" = "
                 "'555 444 555 555 555 444'"));
}

TEST_CASE("a shared dataset that is to be kept") {
  OneArchive run;
  const SharedItem decided = run.decide(ShareRole::lead, "t");
  REQUIRE(decided.key.size() == k_share_key_bytes);
  REQUIRE(run.run() == 0);
  CHECK(run.note() == k_kept_whole);
  CHECK(run.has_flag(k_item_whole));
  CHECK_FALSE(run.has_flag(k_item_linked));
  CHECK(field_text(run.status.items[0].destination) == run.job() + "/t");
  CHECK(run.status.environment == std::vector<std::string>{"NODESTAGE_DATASET=" + decided.path,
                                                           "NODESTAGE_DATASET_T=" + decided.path,
                                                           "NODESTAGE_CACHE=/cache"});
}

TEST_CASE("files of a glob are kept as one read-only tree") {
  ShareRun<StageRun> run("for i in 1 2 3; do echo $i >f$i; done; touch -d 2020-01-01 f?");
  run.add("f?").shared = true;
  run.request.datasets[0].destination = "below/all";
  const SharedItem decided = run.decide(ShareRole::lead, "all");
  REQUIRE(run.run() == 0);
  CHECK(run.note() == k_kept_whole);
  CHECK(run.has_flag(k_item_whole));
  CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + decided.path));
}

TEST_CASE("a dataset that must not be kept is the job's own, and says why") {
  struct Row {
    const char* why;
    std::function<void(OneArchive&)> change;
  };
  const std::string deep = std::string(200, 'p') + "/";
  for (const Row& row :
       {Row{"it was changed while it was read",  // rewritten with the old time
            [](OneArchive& run) {
              run.prepare(
                  "printf x | dd of=t.tar bs=1 seek=512 conv=notrunc status=none && "
                  "touch -d 2020-01-01 t.tar");
            }},
        Row{"it was changed while it was read",  // replaced
            [](OneArchive& run) { run.prepare("cp -p t.tar u && mv u t.tar"); }},
        Row{"it was changed less than a minute ago",
            [](OneArchive& run) { run.order.cache_min_age_s = 60; }},
        Row{"its path is too long for that",
            [&deep](OneArchive& run) {
              run.request.datasets[0].destination = deep + deep + deep + deep + deep + "t";
            }},
        Row{"it is too large", [](OneArchive& run) {
              run.order.shared[0] = {0, ShareRole::own, "", "", "it is too large"};
            }}}) {
    CAPTURE(row.why);
    OneArchive run;
    run.decide(ShareRole::lead, "t");
    row.change(run);
    REQUIRE(run.run() == 0);
    CHECK(run.note() == "not shared: " + std::string(row.why) + "; it is read-only");
    CHECK_FALSE(run.has_flag(k_item_whole));
    const std::string place = run.job() + "/" + run.request.datasets[0].destination;
    CHECK(run.status.environment[0].starts_with("NODESTAGE_DATASET=" + place));
    const bool is_own = run.order.shared[0].role == ShareRole::own;
    CHECK(has(run.status.environment, "NODESTAGE_CACHE=/cache") == !is_own);
    CHECK(run.in_job("test \"$(find . -name t -exec stat -c %a {} +)\" = 500"));
  }
}

TEST_CASE("a dataset that is changed while it is staged is the job's own") {
  ShareRun<StageRun> run(
      "head -c 3000000 /dev/zero >z && tar cf t.tar z && touch -d 2020-01-01 "
      "t.tar");
  run.add("t.tar").shared = true;
  run.decide(ShareRole::lead, "t");
  run.rate = 2'000'000;
  bool is_changed = false;
  SUBCASE("unchanged") {}
  SUBCASE("its time is set") {
    is_changed = true;
    run.prepare(
        "(for i in $(seq 10000); do test ! -e "
        "../job/.nodestage-partial/items/0/one/z || break; sleep 0.001; done; "
        "touch -d 2020-01-01 t.tar) >/dev/null 2>&1 &");
  }
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_whole) == !is_changed);
  CHECK(run.note() == (is_changed ? "not shared: it was changed while it was read; it is read-only"
                                  : k_kept_whole));
}

TEST_CASE("what was changed just before is kept if it was identified by its bytes") {
  OneArchive run;
  run.order.cache_min_age_s = 60;
  run.decide(ShareRole::lead, "t");
  bool is_same = true;
  SUBCASE("the same ones, however long ago it is by now") { run.order.cache_min_age_s = 0; }
  SUBCASE("a byte is another one") {
    run.prepare("printf x | dd of=t.tar bs=1 seek=512 conv=notrunc status=none");
    is_same = false;
  }
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_whole) == is_same);
  if (is_same) CHECK(run.note() == k_kept_whole);
}

TEST_CASE("an item of another name than its entry is not kept") {
  OneArchive run;
  run.decide(ShareRole::lead, "other");
  REQUIRE(run.run() == 0);
  CHECK_FALSE(run.has_flag(k_item_whole));
}

TEST_CASE("an async dataset that is kept has its path in the job directory") {
  OneArchive run;
  run.request.datasets[0].async = true;
  run.decide(ShareRole::lead, "t");
  REQUIRE(run.run() == 0);
  CHECK(run.has_flag(k_item_whole));
  CHECK(run.status.environment ==
        std::vector<std::string>{"NODESTAGE_DATASET=" + run.job() + "/t",
                                 "NODESTAGE_DATASET_T=" + run.job() + "/t",
                                 "NODESTAGE_CACHE=/cache"});
}

TEST_CASE("a dataset that is here already is only linked") {
  OneArchive run;
  SharedItem& decided = run.decide(ShareRole::link, "t");
  decided.note = "staged by job 4711";
  run.prepare("chmod 0 t.tar; rm t.tar");  // nothing is read
  std::string name = "t";
  SUBCASE("default destination") {}
  SUBCASE("a destination below others") {
    name = "x/y/z";
    run.request.datasets[0].destination = name;
  }
  SUBCASE("async") { run.request.datasets[0].async = true; }
  run.room = Amount{};
  REQUIRE(run.run() == 0);
  CHECK(run.claims.empty());
  CHECK(run.state() == ItemState::done);
  CHECK(run.note() == "shared, already here (staged by job 4711); it is read-only");
  CHECK(run.has_flag(k_item_linked));
  CHECK_FALSE(run.has_flag(k_item_whole));
  CHECK(field_text(run.status.items[0].destination) == run.job() + "/" + name);
  CHECK(run.in_job("test \"$(readlink " + name + ")\" = " + decided.path));
  CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + decided.path));
  CHECK(has(run.status.environment, "NODESTAGE_CACHE=/cache"));
}

TEST_CASE("a dataset that another process has just staged for the job has its figures") {
  OneArchive run;
  SharedItem& decided = run.decide(ShareRole::link, "t");
  decided.note = "kept on this node, for all who may read it";
  decided.files = 3;
  decided.bytes = 4096;
  decided.elapsed_ms = 1500;
  REQUIRE(run.run() == 0);
  CHECK(run.note() == "shared: kept on this node, for all who may read it; it is read-only");
  CHECK_FALSE(run.has_flag(k_item_linked));
  CHECK(has(summary_lines(run.status)[0], ": 3 files, 4.0 KiB in 1.5 s; shared: kept"));
  CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + decided.path));
}

TEST_CASE("a link takes nobody's name and follows no link") {
  OneArchive run;
  run.decide(ShareRole::link, "t");
  std::string cause;
  SUBCASE("the name exists") {
    REQUIRE(run.in_job("echo mine >t"));
    cause = "$SLURM_TMPDIR/t: already exists";
  }
  SUBCASE("a link on the way") {
    REQUIRE(run.in_job("ln -s ../data d"));
    run.request.datasets[0].destination = "d/t";
    cause = "$SLURM_TMPDIR/d/t: a directory on the path is a link or a file";
  }
  SUBCASE("another item has it") {
    run.request.datasets.insert(run.request.datasets.begin() + 1, DatasetItem{});
    run.request.datasets[1].source = run.data() + "/d";
    run.request.datasets[1].destination = "t/below";
    cause = "one inside of the other";
  }
  CHECK(run.run() == 1);
  CHECK(has(run.status.cause, cause));
  CHECK(run.in_data("test ! -L t") == 0);
}

TEST_CASE("a worker that is started again keeps what is there") {
  OneArchive run;
  run.decide(ShareRole::link, "t");
  run.add("late").async = true;  // fails, and leaves the ledger
  const auto ledger = [&run](const std::string& name) {
    return run.in_job("mkdir -p .nodestage-partial && printf '" + name +
                      "\\0' >.nodestage-partial/complete");
  };
  SUBCASE("a link") {
    REQUIRE(ledger("t"));
    REQUIRE(run.in_job("ln -s " + run.order.shared[0].path + " t"));
    REQUIRE(run.run() == 0);
    CHECK(run.has_flag(k_item_linked));
    CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + run.order.shared[0].path));
  }
  SUBCASE("a tree") {
    run.order.shared[0].role = ShareRole::lead;
    REQUIRE(ledger("t"));
    REQUIRE(run.in_job("mkdir t"));
    REQUIRE(run.run() == 0);
    CHECK_FALSE(run.has_flag(k_item_linked));
    CHECK_FALSE(run.has_flag(k_item_whole));
    CHECK(run.note() ==
          "already in place; not shared: an earlier try of this job staged it; it is read-only");
    CHECK(has(run.status.environment, "NODESTAGE_DATASET=" + run.job() + "/t"));
    CHECK(run.in_job("test \"$(stat -c %a t)\" = 500"));
  }
}

TEST_CASE("what an earlier worker has placed gives way where the job stages again") {
  OneArchive run;
  run.decide(ShareRole::lead, "t");
  REQUIRE(run.run() == 0);
  REQUIRE(run.has_flag(k_item_whole));
  run.order.shared[0] = {0, ShareRole::own, "", "", "it could not be kept"};
  SUBCASE("not unless the daemon says so") {
    CHECK(run.run() == 1);
    CHECK(has(run.status.cause, "already exists"));
  }
  SUBCASE("the daemon says so") {
    run.order.is_again = true;
    CHECK(run.run() == 0);
    CHECK(run.in_job("test -f t/d/a/one && test \"$(stat -c %a t)\" = 500"));
  }
}
