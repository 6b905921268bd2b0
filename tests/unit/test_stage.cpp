#include <doctest/doctest.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "stage_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr const char* k_staged_tree =
    "mkdir -p t/a/b && echo one > t/a/one && echo two > t/a/b/two && ln -s one t/a/link && "
    "ln t/a/one t/a/hard && touch -d '2020-01-02 03:04:05.123456789' t/a/one t/a/b";

}  // namespace

TEST_CASE("a tar is extracted and told of") {
  StageRun stage(std::string(k_staged_tree) + " && tar cf t.tar t");
  stage.add("t.tar");
  REQUIRE(stage.run() == 0);
  CHECK(stage.status.phase == WorkerPhase::done);
  CHECK(stage.state() == ItemState::done);
  CHECK(stage.what() == "tar");
  CHECK(stage.note().empty());
  CHECK(stage.status.items[0].files == 4);
  CHECK(stage.status.items[0].bytes_read == stage.status.items[0].bytes_total);
  CHECK(stage.status.environment ==
        std::vector<std::string>{"NODESTAGE_DATASET=" + stage.job() + "/t",
                                 "NODESTAGE_DATASET_T=" + stage.job() + "/t"});
  CHECK(stage.in_job("diff -r t/t ../data/t && test \"$(ls -A)\" = t"));
}

TEST_CASE("an item tells when it was begun, read and finished") {
  StageRun stage(std::string(k_staged_tree) + " && tar cf t.tar t");
  stage.add("t.tar");
  stage.add("missing").optional = true;
  const std::uint64_t before = wall_ms();
  REQUIRE(stage.run() == 0);
  const ItemRecord& item = stage.status.items[0];
  // The two clocks are compared when a process first asks, to the millisecond.
  CHECK(item.begun_ms + 1 >= before);
  CHECK(item.begun_ms <= item.read_to_ms);
  CHECK(item.read_to_ms <= item.ended_ms);
  CHECK(item.ended_ms <= wall_ms() + 1);
  CHECK(stage.status.items[1].begun_ms == 0);
  CHECK(stage.status.items[1].ended_ms == 0);
}

TEST_CASE("a directory is copied") {
  StageRun stage(k_staged_tree);
  stage.add("t/").name = "MINE";
  REQUIRE(stage.run() == 0);
  CHECK(stage.what() == "directory");
  CHECK(has(stage.status.environment, "NODESTAGE_DATASET_MINE=" + stage.job() + "/t"));
  CHECK(stage.in_job("diff -r t ../data/t && test t/a/one -ef t/a/hard"));
}

TEST_CASE("a read-only top directory can be placed, and keeps its mode") {
  StageRun stage("mkdir r; echo x > r/f; chmod 555 r; tar cf r.tar -C r .");
  stage.add("r");
  stage.add("r.tar").destination = "below/tar";
  REQUIRE(stage.run() == 0);
  CHECK(stage.in_job("test \"$(stat -c %a r below/tar | xargs)\" = '555 555'"));
}

TEST_CASE("globs") {
  StageRun stage;
  REQUIRE(stage.in_data(
              "for i in 2 1 3; do echo $i > f$i; tar cf s-$i.tar f$i; done; echo x > 'odd[1]'") ==
          0);
  SUBCASE("without a destination") {
    stage.add("s-*.tar");
    REQUIRE(stage.run() == 0);
    CHECK(stage.what() == "3 × tar");
    CHECK(stage.in_job("test \"$(find * | sort | xargs)\" = 's-1 s-1/f1 s-2 s-2/f2 s-3 s-3/f3'"));
    // For stage-out, which would not know what the glob has matched.
    CHECK(stage.in_job("test \"$(tr '\\0' ' ' <.nodestage-placed)\" = 's-1 s-2 s-3 '"));
    CHECK(has(stage.status.environment, "NODESTAGE_DATASET=" + stage.job()));
  }
  SUBCASE("with a destination") {
    stage.add("s-[12].tar").destination = "all";
    REQUIRE(stage.run() == 0);
    CHECK(stage.in_job(
        "test \"$(find * | sort | xargs)\" = 'all all/s-1 all/s-1/f1 all/s-2 all/s-2/f2'"));
    CHECK(stage.in_job("test \"$(ls -A)\" = all"));
    CHECK(has(stage.status.environment, "NODESTAGE_DATASET_ALL=" + stage.job() + "/all"));
  }
  SUBCASE("** is any number of directories, none too") {
    stage.prepare(
        "mkdir -p in/a/b in/.h in/c.tar; cp s-1.tar in; cp s-2.tar in/a/b; "
        "cp s-3.tar in/.h; cp s-3.tar in/c.tar; ln -s a in/link");
    stage.add("in/**/*.tar").destination = "all";
    REQUIRE(stage.run() == 0);
    CHECK(
        stage.in_job("test \"$(find all | sort | xargs)\" = "
                     "'all all/c all/c/s-3.tar all/s-1 all/s-1/f1 all/s-2 all/s-2/f2'"));
  }
  SUBCASE("braces") {
    stage.add("s-{1..2}.tar");
    stage.add("{f*,odd[1]}").destination = "all";
    REQUIRE(stage.run() == 0);
    CHECK(
        stage.in_job("test \"$(find * | sort | xargs)\" = "
                     "'all all/f1 all/f2 all/f3 all/odd[1] s-1 s-1/f1 s-2 s-2/f2'"));
  }
  SUBCASE("braces: each name must exist, or match something") {
    stage.add("s-{1..4}.tar");
    CHECK(stage.run() == 1);
    CHECK(stage.has_cause("/s-4.tar: No such file"));
    stage.add("{f,g}*");
    stage.request.datasets.erase(stage.request.datasets.begin());
    CHECK(stage.run() == 1);
    CHECK(stage.has_cause("/g*: no file matches"));
  }
  SUBCASE("a name that exists literally") {
    stage.add("odd[1]");
    REQUIRE(stage.run() == 0);
    CHECK(stage.in_job("test -f 'odd[1]'"));
  }
  SUBCASE("no match") {
    stage.add("n*");
    CHECK(stage.run() == 1);
    CHECK(stage.has_cause("no file matches"));
  }
  SUBCASE("two matches of one name") {
    stage.prepare("cp s-1.tar d.tar; zip -q d.zip f1");
    auto& item = stage.add("d.*");
    for (const char* destination : {"", "dest"}) {
      item.destination = destination;
      CHECK(stage.run() == 1);
      CHECK(stage.has_cause("/d.tar and " + stage.data() + "/d.zip would both become 'd'"));
      REQUIRE(stage.in_job("rm -rf d"));
    }
  }
}

TEST_CASE("the failure of a needed dataset fails the job, with the cause in two lines") {
  StageRun stage(std::string(k_staged_tree) + " && tar czf t.tgz t && head -c 100 t.tgz > cut.tgz");
  stage.add("cut.tgz");
  SUBCASE("needed") {
    CHECK(stage.run() == 1);
    CHECK(stage.status.phase == WorkerPhase::failed);
    CHECK(stage.status.cause.starts_with("dataset 'cut': " + stage.data() +
                                         "/cut.tgz: cut off after 100 B"));
    CHECK(std::count(stage.status.cause.begin(), stage.status.cause.end(), '\n') == 1);
    CHECK(stage.status.environment.empty());
  }
  SUBCASE("optional") {
    stage.request.datasets[0].optional = true;
    stage.add("t.tgz");
    CHECK(stage.run() == 0);
    CHECK(stage.state(0) == ItemState::failed);
    CHECK(has(stage.note(0), "cut off"));
    CHECK(stage.status.environment ==
          std::vector<std::string>{"NODESTAGE_DATASET_T=" + stage.job() + "/t"});
  }
  SUBCASE("the site lets jobs proceed") {
    stage.order.on_failure = OnFailure::proceed;
    CHECK(stage.run() == 0);
  }
  SUBCASE("async") {
    stage.request.datasets[0].async = true;
    CHECK(stage.run() == 0);
    CHECK(stage.state() == ItemState::failed);
    CHECK(field_text(stage.status.items.at(0).name) == "CUT");
  }
  CHECK(stage.in_job("test ! -e cut -a ! -e .nodestage-partial"));
}

TEST_CASE("limit_files: a dataset with more files fails, with the limit and what to do") {
  struct Case {
    const char* source;
    const char* destination;
    unsigned files;
  };
  for (const Case& one : {Case{"t.tar", "", 4}, Case{"t.zip", "d", 4}, Case{"t", "", 4},
                          Case{"*.txt", "", 2}, Case{"*.txt", "d", 2}, Case{"a.txt", "", 1}}) {
    CAPTURE(one.source);
    StageRun stage(std::string(k_staged_tree) + " && tar cf t.tar t && bsdtar -a -cf t.zip t && " +
                   "touch a.txt b.txt");
    stage.add(one.source).destination = one.destination;
    stage.request.datasets[0].limit_files = one.files;
    CHECK(stage.run() == 0);
    CHECK(stage.status.items[0].files == one.files);
    if (one.files == 1) continue;
    StageRun fewer("cp -a " + stage.data() + "/. .");
    fewer.add(one.source).destination = one.destination;
    fewer.request.datasets[0].limit_files = one.files - 1;
    CHECK(fewer.run() == 1);
    CHECK(fewer.has_cause(": has more than " + std::to_string(one.files - 1) +
                          " files, which limit_files= does not allow\nLeave out"));
    CHECK(fewer.in_job("test ! -e t -a ! -e d -a ! -e b.txt -a ! -e .nodestage-partial"));
  }
}

TEST_CASE("limit_files: not much more than the limit is written") {
  for (const char* source : {"many", "many.tar"}) {
    CAPTURE(source);
    StageRun stage("mkdir many && touch many/{1..20000} && tar cf many.tar many");
    stage.add(source).limit_files = 10;
    CHECK(stage.run() == 1);
    CHECK(stage.status.items[0].files > 10);
    CHECK(stage.status.items[0].files < 10000);
  }
}

TEST_CASE("a destination that exists, leads through a link or overlaps another is refused") {
  StageRun stage("echo x > f; echo y > g; mkdir elsewhere");
  auto& item = stage.add("f");
  item.destination = "a/b/c";
  SUBCASE("exists already") {
    REQUIRE(stage.in_job("mkdir -p a/b; echo mine > a/b/c"));
    CHECK(stage.run() == 1);
    CHECK(stage.has_cause("$SLURM_TMPDIR/a/b/c: already exists"));
    CHECK(stage.in_job("grep -q mine a/b/c"));
  }
  SUBCASE("through a link") {
    REQUIRE(stage.in_job("ln -s ../data/elsewhere a"));
    CHECK(stage.run() == 1);
    CHECK(stage.has_cause("is a link or a file"));
    CHECK(stage.in_data("test -z \"$(ls elsewhere)\"") == 0);
  }
  SUBCASE("two datasets, one place") {
    for (const std::string other : {"a/b/c", "a/b", "a/b/c/d"}) {
      stage.request.datasets.resize(1);
      stage.add("g").destination = other;
      CHECK(stage.run() == 1);
      const bool same = other == "a/b/c";
      check_has(stage.status.cause,
                {same ? "/data/f and " : "/data/f would become 'a/b/c'",
                 same ? "/data/g would both become" : "one inside of the other"});
    }
  }
}

TEST_CASE("a worker that is started over keeps what was placed") {
  StageRun stage("echo x > f; echo y > g");
  stage.add("f");
  stage.add("g");
  // As if killed right after f was placed, g half-built, and a record half-written.
  REQUIRE(stage.in_job(
      "mkdir -p .nodestage-partial/items/1; echo half > .nodestage-partial/items/1/one; "
      "printf 'f\\0g' > .nodestage-partial/complete; echo placed > f"));
  REQUIRE(stage.run() == 0);
  CHECK(stage.note(0) == "already in place");
  CHECK(stage.in_job("grep -q placed f && grep -q y g && test ! -e .nodestage-partial"));
}

TEST_CASE("more threads than datasets, more datasets than threads") {
  StageRun stage("for i in $(seq 20); do echo $i > f$i; done");
  for (int i = 1; i <= 20; ++i) stage.add("f" + std::to_string(i)).async = i % 3 == 0;
  SUBCASE("1") { stage.order.threads = 1; }
  SUBCASE("64") { stage.order.threads = 64; }
  REQUIRE(stage.run() == 0);
  CHECK(stage.in_job("test $(ls | wc -l) = 20 -a $(cat f7) = 7"));
  CHECK(stage.status.environment.size() == 21);
}

TEST_CASE("no dataset at all") {
  StageRun stage;
  CHECK(stage.run() == 0);
  CHECK(stage.status.phase == WorkerPhase::done);
}

TEST_CASE("a refusal of outputs fails a request that has some, and no other") {
  StageRun stage("echo 1 > f");
  stage.add("f");
  stage.order.refuse_outputs = "too much is held";
  REQUIRE(stage.run() == 0);
  OutputItem output{.source = "res", .target = "/p/out"};
  stage.request.outputs.push_back(output);
  CHECK(stage.run() == 1);
  CHECK(stage.status.cause == "too much is held");
}

TEST_CASE("the status names the item that the job fails for, and none when it goes on") {
  StageRun stage("echo x > a");
  stage.add("a");
  stage.add("missing").optional = true;
  REQUIRE(stage.run() == 0);
  CHECK_FALSE(stage.status.failed_item);
  stage.add("missing.too");
  REQUIRE(stage.run() == 1);
  CHECK(stage.status.failed_item == 2);
  CHECK(stage.status.cause.starts_with("dataset 'missing.too': "));
  stage.request.datasets.pop_back();
  stage.request.venv.emplace();
  stage.request.venv->source = stage.data() + "/no.env";
  REQUIRE(stage.run() == 1);
  CHECK(stage.status.failed_item == 2);
  CHECK(stage.status.cause.starts_with("the environment: "));
}

TEST_CASE("the mark of a source is the same until the source or the keys change") {
  const auto mark_after = [](StageRun& stage, const char* change) {
    stage.prepare(change);
    REQUIRE(stage.run() == 0);
    REQUIRE(stage.in_job("chmod -R u+w . && rm -rf ./t"));
    return stage.status.items[0].source_mark;
  };
  StageRun stage;
  stage.order.cache = "/cache";
  stage.order.cache_min_age_s = 0;
  stage.prepare(std::string(k_staged_tree) + " && tar cf t.tar t");
  SUBCASE("of a file") {
    stage.add("t.tar");
    const std::uint64_t mark = mark_after(stage, "true");
    CHECK(mark != 0);
    CHECK(mark_after(stage, "true") == mark);
    CHECK(mark_after(stage, "touch -d '2020-01-02' t.tar") != mark);
    const std::uint64_t touched = mark_after(stage, "true");
    stage.request.datasets[0].strip = 1;
    stage.request.datasets[0].destination = "t";
    CHECK(mark_after(stage, "true") != touched);
  }
  SUBCASE("of a part of a file") {
    DatasetItem& item = stage.add("t.tar");
    const std::uint64_t all = mark_after(stage, "true");
    item.include = {"t/a/*"};
    const std::uint64_t part = mark_after(stage, "true");
    CHECK(part != 0);
    CHECK(part != all);
    CHECK(mark_after(stage, "true") == part);
    item.exclude = {"t/a/link"};
    CHECK(mark_after(stage, "true") != part);
  }
  SUBCASE("of a file that was just changed, there is none") {
    stage.order.cache_min_age_s = 3600;
    stage.add("t.tar");
    CHECK(mark_after(stage, "true") == 0);
  }
  SUBCASE("nor is there one where nothing is kept") {
    stage.order.cache.clear();
    stage.add("t.tar");
    CHECK(mark_after(stage, "true") == 0);
  }
  SUBCASE("of a directory") {
    stage.add("t");
    const std::uint64_t mark = mark_after(stage, "true");
    CHECK(mark != 0);
    CHECK(mark_after(stage, "touch t/a/one") == mark);
    CHECK(mark_after(stage, "mv t u && cp -r u t") != mark);
  }
  SUBCASE("of a part of a directory, there is none: its archive would have all of it") {
    DatasetItem& item = stage.add("t");
    SUBCASE("exclude=") { item.exclude = {"a/one"}; }
    SUBCASE("links=follow") { item.links = Links::follow; }
    CHECK(mark_after(stage, "true") == 0);
  }
  SUBCASE("of several files, there is none") {
    stage.prepare("cp t.tar t2.tar");
    stage.add("t*.tar").destination = "t";
    CHECK(mark_after(stage, "true") == 0);
  }
}

TEST_CASE("in a pilot, a user is checked who is in none of the groups, in one, and where all may") {
  StageOrder order;
  order.refuse_user = "nodestage is not open to alice on n1 yet";
  const auto may_stage = [&order] {
    return as_user([&] { return check_user(order) ? 0 : 1; }) == 0;
  };
  CHECK(may_stage());
  const std::uint64_t own = ::geteuid() == 0 ? k_test_uid : ::getegid();
  order.only_groups = {own + 1};
  CHECK_FALSE(may_stage());
  CHECK(check_user(order).error().what == order.refuse_user);
  order.only_groups.push_back(own);
  CHECK(may_stage());
}
