// newest=: what is chosen, and that the job gets all of it or nothing.
#include <doctest/doctest.h>

#include "daemon/worker/piece/dataset_sources.hpp"
#include "stage_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// Four checkpoints, the newest last, and a log that was written later still.
constexpr const char* k_run =
    "mkdir run && cd run && for i in 1 2 3 4; do echo $i > c$i.pt; "
    "touch -d \"2024-01-01 00:00:0$i\" c$i.pt; done; echo x > log; touch -d '2024-01-02' log";

// The job's entries, sorted.
bool job_is(const StageRun& stage, const std::string& names) {
  return stage.in_job("test \"$(find * ! -type d 2>/dev/null | LC_ALL=C sort | xargs)\" = '" +
                      names + "'");
}

// As an earlier worker leaves it that has chosen and then was stopped, with what it has placed.
void leave_choice(const StageRun& stage, const DatasetSources& sources,
                  const std::string& placed = "") {
  const std::string directory = stage.job() + "/.nodestage-partial/";
  REQUIRE(stage.in_job("mkdir .nodestage-partial"));
  const auto write = [&](const std::string& name, const std::string& text) {
    const Fd file(::open((directory + name).c_str(), O_WRONLY | O_CREAT, 0600));
    return file && write_all(file.get(), text);
  };
  REQUIRE(as_user([&] {
            return write("choice-0", text_of_choice(sources)) && write("complete", placed) ? 0 : 1;
          }) == 0);
}

}  // namespace

TEST_CASE("newest: of a directory, the entries with the latest times") {
  StageRun stage(k_run);
  DatasetItem& item = stage.add("run");
  item.destination = "start";
  item.newest = 1;
  SUBCASE("one") {
    REQUIRE(stage.run() == 0);
    CHECK(job_is(stage, "start/log"));
    CHECK(stage.note() == "the newest 1 of 5: log");
    CHECK(stage.status.chosen == "start: log");
    CHECK(stage.status.phase == WorkerPhase::done);
    CHECK(stage.what() == "directory");
    CHECK(stage.status.items[0].files == 1);
    CHECK(stage.status.items[0].bytes_total == 2);
  }
  SUBCASE("after include and exclude") {
    item.newest = 2;
    item.include = {"*.pt"};
    item.exclude = {"c4*"};
    REQUIRE(stage.run() == 0);
    CHECK(job_is(stage, "start/c2.pt start/c3.pt"));
    CHECK(stage.note() == "the newest 2 of 3: c3.pt, c2.pt");
    CHECK(stage.status.chosen == "start: c2.pt, c3.pt");
  }
  SUBCASE("more than there are") {
    item.newest = 100;
    REQUIRE(stage.run() == 0);
    CHECK(job_is(stage, "start/c1.pt start/c2.pt start/c3.pt start/c4.pt start/log"));
    CHECK(stage.note() == "the newest 5 of 5: log, c4.pt, c3.pt and 2 more");
  }
  SUBCASE("a link to the directory, and no destination") {
    stage.prepare("ln -s run latest");
    item.source = stage.data() + "/latest";
    item.destination.clear();
    REQUIRE(stage.run() == 0);
    CHECK(job_is(stage, "latest/log"));
    CHECK(stage.status.chosen == "latest: log");
  }
}

TEST_CASE("newest: nanoseconds count, and names break ties") {
  StageRun stage(
      "mkdir near ties; touch -d '2024-01-01 00:00:01.000000002' near/a; "
      "touch -d '2024-01-01 00:00:01.000000001' near/b; "
      "touch -d '2024-01-01' ties/{b,c,a}");
  for (const char* name : {"near", "ties"}) stage.add(name).newest = 1;
  REQUIRE(stage.run() == 0);
  CHECK(job_is(stage, "near/a ties/c"));
}

TEST_CASE("newest: a directory among the entries is one, with all that is in it but exclude=") {
  StageRun stage(
      "mkdir -p run/old run/new/deep; touch -d '2030-01-01' run/old/x; echo 1 > "
      "run/new/a; echo 2 > run/new/deep/b; echo 3 > run/new/c.tmp; touch -d "
      "'2024-01-01' run/old; touch -d '2024-01-02' run/new");
  DatasetItem& item = stage.add("run");
  item.newest = 1;
  item.exclude = {"*.tmp"};
  REQUIRE(stage.run() == 0);
  CHECK(job_is(stage, "run/new/a run/new/deep/b"));
  CHECK(stage.in_job("test ! -e run/old && diff -r -x '*.tmp' run/new ../data/run/new"));
  CHECK(stage.status.items[0].bytes_total == 0);  // not known
  CHECK(stage.note() == "the newest 1 of 2: new");
}

TEST_CASE("newest: links, FIFOs and files of stage-out that are not complete do not count") {
  StageRun stage(
      "mkdir run; cd run; echo 1 > c1.pt; touch -d 2024-01-01 c1.pt; ln -s c1.pt "
      "latest; mkfifo z; touch .nodestage-7-00000001ab.tmp; echo 2 > .hidden; "
      "touch -d 2023-01-01 .hidden");
  stage.add("run").newest = 1;
  REQUIRE(stage.run() == 0);
  CHECK(job_is(stage, "run/c1.pt"));
  CHECK(stage.note() == "the newest 1 of 2: c1.pt");
}

TEST_CASE(
    "newest: a directory whose delivery was cut off does not count, one that is complete does") {
  StageRun stage(
      "mkdir -p run/step1 run/step2 run/step3; touch run/step1/a run/step2/a "
      "run/step3/a; chmod 1700 run/step2; chmod 3700 run/step3; touch -d "
      "2024-01-01 run/step1; touch -d 2024-01-02 run/step2; touch -d 2024-01-03 "
      "run/step3");
  DatasetItem& item = stage.add("run");
  item.newest = 1;
  item.destination = "start";
  SUBCASE("of a directory") {}
  SUBCASE("of a glob") { item.source += "/step*"; }
  REQUIRE(stage.run() == 0);
  CHECK(job_is(stage, "start/step1/a"));
}

TEST_CASE("newest: nothing to choose from is a fault that says what to do") {
  StageRun stage(
      "mkdir empty links some; ln -s /x links/x; touch some/a some/b file; "
      "touch empty/.nodestage-7-00000001ab.tmp");
  const auto fault_of = [&](const char* source, const char* include = "") {
    stage.request.datasets.clear();
    DatasetItem& item = stage.add(source);
    item.destination = "d";
    item.newest = 1;
    if (*include != '\0') item.include = {include};
    CHECK(stage.run() == 1);
    CHECK(stage.in_job("test -z \"$(ls -A)\""));
    return stage.status.cause;
  };
  const std::string name = "dataset 'd': " + stage.data();
  CHECK(fault_of("empty") ==
        name +
            "/empty: newest= has nothing to choose from: it is empty\nSomething must be in it "
            "when the job starts; with the key optional, the job starts without it");
  CHECK(has(fault_of("some", "*.pt"),
            "/some: newest= has nothing to choose from: include= and "
            "exclude= leave out all that is in it (2 entries)\n"));
  CHECK(has(fault_of("links"),
            "nothing in it is a file or a directory (1 entry)\nSymbolic links do "
            "not count"));
  CHECK(has(fault_of("missing"), "/missing: No such file or directory\n"));
  CHECK(has(fault_of("missing"), "; with the key optional, the job starts without it"));
  CHECK(has(fault_of("n*"), "no file matches"));
  CHECK(has(fault_of("some/*", "*.pt"), "none of its matches counts (2 matches)"));
  CHECK(has(fault_of("file"),
            "/file: is a file, and newest= chooses among the entries of a directory\nName its "
            "directory, or remove newest="));
}

TEST_CASE("newest: with optional, the job starts without it, and the nodes can compare that") {
  StageRun stage("mkdir empty");
  DatasetItem& item = stage.add("empty");
  item.destination = "start";
  item.newest = 1;
  item.optional = true;
  REQUIRE(stage.run() == 0);
  CHECK(stage.state() == ItemState::failed);
  CHECK(stage.note() == stage.data() +
                            "/empty: newest= has nothing to choose from: it is empty\nSomething "
                            "must be in it when the job starts");
  CHECK(stage.status.environment.empty());
  CHECK(stage.status.chosen == "start: none");
}

TEST_CASE("newest: of a glob, the newest matches, each as without it") {
  struct Row {
    const char* what;
    DatasetItem item;
    const char* job;
    const char* note = nullptr;
    const char* chosen = nullptr;
  };
  for (const Row& row :
       {Row{"archives, with a destination",
            {.source = "s*.tar", .destination = "all", .newest = 2},
            "all/s2/r2/m.pt all/s3/r3/m.pt",
            "the newest 2 of 3: s3.tar, s2.tar",
            "all: s2.tar, s3.tar"},
        Row{"directories, without a destination; include= selects what is inside",
            {.source = "r*", .include = {"m.pt"}, .newest = 1},
            "r3/m.pt",
            nullptr,
            "r*: r3"},
        Row{"one name in several directories",
            {.source = "r*/m.pt", .newest = 1},
            "m.pt",
            "the newest 1 of 3: r3/m.pt",
            "m.pt: r3/m.pt"},
        Row{"links are followed; include= and exclude= are for the names of files",
            {.source = "*", .include = {"*.pt"}, .exclude = {"r*", "s*", "x*"}, .newest = 1},
            "last.pt",
            "the newest 1 of 2: last.pt"},
        Row{"a backslash in the pattern", {.source = "\\r*/m.pt", .newest = 1}, "m.pt"},
        Row{"a name that exists literally", {.source = "x[1]", .newest = 1}, "x[1]/a"}}) {
    CAPTURE(row.what);
    StageRun stage(
        "for i in 1 2 3; do mkdir r$i; echo $i > r$i/m.pt; tar cf s$i.tar r$i; "
        "touch -d 2024-01-0$i r$i s$i.tar r$i/m.pt; done; ln -s r3/m.pt last.pt; "
        "echo x > t.pt; touch -d 2023-01-01 t.pt; mkdir 'x[1]'; "
        "touch 'x[1]/a'");
    stage.request.datasets = {row.item};
    stage.request.datasets[0].source = stage.data() + "/" + row.item.source;
    REQUIRE(stage.run() == 0);
    CHECK(job_is(stage, row.job));
    if (row.job == std::string("m.pt")) CHECK(stage.in_job("test \"$(cat m.pt)\" = 3"));
    if (row.item.destination == "all") CHECK(stage.what() == "2 × tar");
    if (row.note != nullptr) CHECK(stage.note() == row.note);
    if (row.chosen != nullptr) CHECK(stage.status.chosen == row.chosen);
  }
}

TEST_CASE("newest: what is admitted are the chosen entries alone") {
  StageRun stage(
      "mkdir run; head -c 100000 /dev/zero | tr '\\0' x > run/big; head -c 3000 "
      "run/big > run/a; head -c 5000 run/big > run/b; touch -d 2020-01-01 "
      "run/big");
  stage.room = Amount{1 << 20, 1000};
  stage.add("run").newest = 2;
  REQUIRE(stage.run() == 0);
  REQUIRE_FALSE(stage.claims.empty());
  CHECK(stage.claims[0].need.bytes == 4096 + 8192);
  CHECK(stage.claims[0].need.inodes == 3);
}

TEST_CASE("newest: a chosen entry that is gone fails the item as a whole") {
  StageRun stage(k_run);
  DatasetItem& item = stage.add("run");
  item.newest = 2;
  const NewestChoice choice{{{"c4.pt", {}}, {"gone.pt", {}}}, 6, ""};
  SUBCASE("of a directory") {
    leave_choice(stage, {{item.source}, false, choice});
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause,
              "/run/gone.pt: cannot be read: No such file or directory\nnewest= "
              "had chosen it"));
  }
  SUBCASE("of a directory, optional") {
    leave_choice(stage, {{item.source}, false, choice});
    item.optional = true;
    CHECK(stage.run() == 0);
    CHECK(stage.state() == ItemState::failed);
    CHECK(stage.status.chosen == "run: c4.pt, gone.pt");
  }
  SUBCASE("of a glob") {
    item.source += "/*";
    const std::string run = stage.data() + "/run/";
    leave_choice(stage, {{run + "c4.pt", run + "gone.pt"},
                         true,
                         NewestChoice{{{run + "c4.pt", {}}, {run + "gone.pt", {}}}, 6, run}});
    CHECK(stage.run() == 1);
    CHECK(
        has(stage.status.cause, "/run/gone.pt: No such file or directory\nnewest= had chosen it"));
  }
  SUBCASE("of a glob, where an archive is damaged at its end") {
    stage.prepare(
        "tar cf run/w.tar run/log; head -c 2000 /dev/urandom | gzip > run/g; head "
        "-c 1000 run/g > run/x.tgz; touch -d 2029-01-01 run/w.tar run/x.tgz");
    item.source += "/*";
    item.optional = true;
    CHECK(stage.run() == 0);
    CHECK(stage.state() == ItemState::failed);
    CHECK(stage.status.chosen == "*: w.tar, x.tgz");
  }
  CHECK(stage.in_job("test -z \"$(ls -A | grep -v -e partial -e placed)\""));
}

TEST_CASE("newest: a worker that goes on keeps to what an earlier one has chosen") {
  StageRun stage(k_run);
  DatasetItem& item = stage.add("run");
  item.newest = 1;
  item.exclude = {"log"};
  const DatasetSources sources{{item.source}, false, NewestChoice{{{"c2.pt", {}}}, 4, ""}};
  std::string more;
  SUBCASE("of which nothing is in place") { leave_choice(stage, sources); }
  SUBCASE("of which all is in place, even if the source has lost it") {
    REQUIRE(stage.in_job("mkdir run; cp -p ../data/run/c2.pt run; rm ../data/run/c2.pt"));
    leave_choice(stage, sources, std::string("run\0", 4));
    more = "; already in place";
  }
  REQUIRE(stage.run() == 0);
  CHECK(job_is(stage, "run/c2.pt"));
  CHECK(stage.note() == "the newest 1 of 4: c2.pt" + more);
  CHECK(stage.status.chosen == "run: c2.pt");
}

TEST_CASE("newest: a kept choice is read only whole") {
  DatasetItem item{.source = "/p/r*/m"};
  const DatasetSources group{
      {"/p/r1/m", "/p/r2/m"}, true, NewestChoice{{{"/p/r2/m", {}}, {"/p/r1/m", {}}}, 7, "/p/"}};
  const std::string text = text_of_choice(group);
  const auto again = sources_of_choice(item, text);
  REQUIRE(again);
  CHECK(again->is_group);
  CHECK(again->paths == group.paths);
  CHECK(newest_text(*again->newest) == "the newest 2 of 7: r2/m, r1/m");
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_FALSE(sources_of_choice(item, text.substr(0, size)));
  for (const char* name : {"..", ".", "", "a/b"}) {
    const DatasetSources odd{{"/p"}, false, NewestChoice{{{name, {}}}, 1, ""}};
    CHECK_FALSE(sources_of_choice(item, text_of_choice(odd)));
  }
}

TEST_CASE("the status says what newest= has chosen for each item, and how often to deliver") {
  StageRun stage("mkdir a b plain; touch a/1 $'b/2\\n3' plain/x");
  stage.add("a").newest = 1;
  stage.add("plain");
  stage.add("b").newest = 1;
  stage.add("none").newest = 1;
  stage.request.datasets.back().async = true;
  stage.request.outputs = {{"r", "/t"}, {"s", "/t"}};
  stage.request.outputs[1].every_s = 900;
  REQUIRE(stage.run() == 0);
  CHECK(stage.status.chosen == "a: 1\nb: 2\\x0a3\nnone: none");
  REQUIRE(stage.status.every_s.size() == k_max_request_items);
  CHECK(stage.status.every_s[0] == 0);
  CHECK(stage.status.every_s[1] == 900);
}

TEST_CASE("long choices are shortened, and still differ where anything does") {
  const auto chosen = [](const char* more) {
    StageRun stage(
        "mkdir run few; touch few/1; cd run; for i in $(seq -w 200); do touch "
        "a-long-name-of-a-checkpoint-$i; done; touch -d 2020-01-01 "
        "a-long-name-of-a-checkpoint-100 " +
        std::string(more));
    stage.add("run").newest = 199;
    stage.add("few").newest = 1;
    REQUIRE(stage.run() == 0);
    CHECK(stage.status.chosen.size() < sizeof StatusHeader::chosen);
    CHECK(stage.status.chosen.ends_with(")\nfew: 1"));
    CHECK(stage.status.chosen.starts_with("run: a-long-name-of-a-checkpoint-001, a-long"));
    return stage.status.chosen;
  };
  const std::string one = chosen("");
  CHECK(one == chosen(""));
  CHECK(one != chosen("; touch -d 2019-01-01 a-long-name-of-a-checkpoint-101"));
}
