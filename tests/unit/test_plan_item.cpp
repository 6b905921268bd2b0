#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/base/conversation.hpp"
#include "cli/plan/plan.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

struct Plan {
  Scratch scratch;

  Plan() {
    fs::create_directories(scratch / "tree/sub");
    for (int i = 0; i < 10; ++i)
      std::ofstream(scratch / ("tree/sub/" + std::to_string(i))) << std::string(1000, 'x');
    std::ofstream(scratch / "data.bin") << std::string(5000, 'x');
  }
  void shell(const std::string& command) const {
    REQUIRE(std::system(
                ("cd '" + scratch.path().string() + "' && (" + command + ") >/dev/null").c_str()) ==
            0);
  }
  [[nodiscard]] PlanItem of(const std::string& name) const {
    DatasetItem item{.source = scratch / name};
    return plan_dataset(item, 4);
  }
};

}  // namespace

TEST_CASE("plan: each kind of archive is told, counted and read as staging would") {
  const Plan plan;
  plan.shell(
      "tar cf p.tar -C tree .; gzip -k p.tar; xz -k p.tar; bzip2 -k p.tar; zstd -q p.tar; lz4 -q "
      "p.tar p.tar.lz4; (cd tree && zip -qr ../z.zip sub; 7z a ../z.7z sub)");
  struct Row {
    const char* name;
    const char* what;
    bool is_parallel;
    const char* why;
  };
  for (const Row& row : {Row{"p.tar", "tar", true, "not compressed"},
                         Row{"p.tar.gz", "tar.gz", false, "one gzip stream"},
                         Row{"p.tar.xz", "tar.xz", false, "one xz block"},
                         Row{"p.tar.bz2", "tar.bz2", true, "bzip2 blocks"},
                         Row{"p.tar.lz4", "tar.lz4", false, "one lz4 stream"},
                         Row{"z.7z", "7z", false, "an archive of the kind 7z is one stream"},
                         Row{"z.zip", "zip", true, "each member"}}) {
    CAPTURE(row.name);
    const PlanItem item = plan.of(row.name);
    CHECK(item.fault == "");
    CHECK(item.what == row.what);
    CHECK(item.is_parallel == row.is_parallel);
    CAPTURE(item.reading);
    CHECK(has(item.reading, row.why));
    CHECK(item.bytes.value == 10000);
    CHECK(item.bytes.surety == Surety::exact);
    CHECK(item.files.value == 10);
    CHECK(item.need.bytes >= 10000);
    CHECK(item.time != "");
    CHECK(item.advice.empty());  // it is small
  }
  CHECK(plan.of("p.tar.gz").destination == "p");
}

TEST_CASE("plan: an image is copied, and what would be better as one is told") {
  const Plan plan;
  plan.shell("mksquashfs tree i.sqsh -quiet -no-progress && cp i.sqsh i.bin");
  DatasetItem image{.source = plan.scratch / "i.sqsh"};
  image.mount = true;
  const PlanItem mounted = plan_dataset(image, 4);
  CHECK(mounted.fault == "");
  CHECK(mounted.what == "squashfs image");
  CHECK(mounted.destination == "i");
  CHECK(mounted.bytes.value == fs::file_size(plan.scratch / "i.sqsh"));
  CHECK(mounted.need.bytes >= mounted.bytes.value);
  CHECK(mounted.advice.empty());
  const PlanItem copied = plan.of("i.bin");
  REQUIRE(copied.advice.size() == 1);
  CHECK(has(copied.advice[0], "the key mount mounts it"));
  image.source = plan.scratch / "data.bin";
  CHECK(has(plan_dataset(image, 4).fault, "is not a squashfs image"));
}

TEST_CASE("plan: an image is advised for very many small files alone") {
  struct Row {
    DatasetItem item;
    std::uint64_t files;
    std::uint64_t bytes;
    const char* advice;  // "": none
  };
  const DatasetItem mounted{.source = "/p/many.sqsh", .mount = true};
  for (const Row& row :
       {Row{{.source = "/p/many.tar.gz"},
            100'000,
            9'999'900'000,
            "nodestage pack --image many.sqsh /p/many.tar.gz, and then "
            "--stage-dataset=many.sqsh,mount"},
        Row{{.source = "/p/dir"}, 1'000'000, 1, "--image dir.sqsh /p/dir, and then"},
        Row{{.source = "/p/many.zip"}, 100'000, 1, "--image many.sqsh DIR, and then"},
        Row{{.source = "/p/many.tar"}, 99'999, 1, ""},
        Row{{.source = "/p/many.tar"}, 100'000, 10'000'000'000, ""},
        Row{{.source = "/p/many.tar", .strip = 1}, 100'000, 1, ""},
        Row{{.source = "/p/*.tar"}, 100'000, 1, ""}, Row{mounted, 100'000, 1, ""}}) {
    CAPTURE(row.item.source);
    PlanItem plan;
    plan.files.value = row.files;
    plan.bytes.value = row.bytes;
    advise_image(row.item, plan);
    REQUIRE(plan.advice.size() == (*row.advice == '\0' ? 0 : 1));
    if (!plan.advice.empty()) CHECK(has(plan.advice[0], row.advice));
  }
}

TEST_CASE("plan: a compressed file that would be decompressed has its content's size") {
  const Plan plan;
  plan.shell("gzip -k data.bin; bzip2 -k data.bin; cp data.bin.gz b.bin.gz");
  DatasetItem item;
  item.source = plan.scratch / "data.bin.gz";
  item.extract = Extract::yes;
  const PlanItem one = plan_dataset(item, 4);
  CHECK(one.what == "gz");
  CHECK(one.destination == "data.bin");
  CHECK(one.bytes.value == 5000);
  CHECK(one.files.value == 1);
  CHECK(one.need.bytes >= 5000);
  CHECK(has(one.reading, "one gzip stream"));
  CHECK(has(one.time, "and decode"));
  item.source = plan.scratch / "*.gz";
  const PlanItem both = plan_dataset(item, 4);
  CHECK(both.files.value == 2);
  CHECK(both.bytes.value == 10000);
  item.source = plan.scratch / "data.bin.bz2";
  CHECK(plan_dataset(item, 4).is_parallel);
}

TEST_CASE("plan: what is shared is told") {
  const Plan plan;
  DatasetItem item{.source = plan.scratch / "data.bin"};
  CHECK_FALSE(plan_dataset(item, 4).is_shared);
  item.shared = true;
  CHECK(plan_dataset(item, 4).is_shared);
  VenvItem venv{.source = item.source, .shared = true};
  CHECK(plan_venv(venv, 4).is_shared);
}

TEST_CASE("plan: a directory of many files should be packed, and costs each job a look if shared") {
  const Plan plan;
  DatasetItem item{.source = plan.scratch / "tree"};
  CHECK(plan_dataset(item, 4).walk_seconds < 0);
  item.shared = true;
  const PlanItem tree = plan_dataset(item, 4);
  CHECK(tree.walk_seconds >= 0);
  CHECK(tree.walk_entries == tree.need.inodes - 1);
  item.source = plan.scratch / "data.bin";
  CHECK(plan_dataset(item, 4).walk_seconds < 0);
  plan.shell("mkdir many; cd many; seq 2000 | xargs touch");
  item.source = plan.scratch / "many";
  const PlanItem many = plan_dataset(item, 4);
  CHECK(many.walk_entries == 2000);
  REQUIRE(many.advice.size() == 1);
  CHECK(has(many.advice[0], "each node reads it once, and each job looks at all of it"));
  CHECK(has(many.advice[0], "nodestage pack " + (plan.scratch / "many") + " -o many.tar.zst"));
  const PlanItem staged = plan.of("many");
  CHECK(staged.files.value == 2000);
  REQUIRE(staged.advice.size() == 1);
  CHECK(has(staged.advice[0], "2,000 files"));
  CHECK(has(staged.advice[0], "nodestage pack " + (plan.scratch / "many") + " -o many.tar.zst"));
}

TEST_CASE("plan: directories are walked, files are themselves") {
  const Plan plan;
  const PlanItem tree = plan.of("tree");
  CHECK(tree.what == "directory");
  CHECK(tree.files.value == 10);
  CHECK(tree.bytes.value == 10000);
  CHECK(tree.need.bytes == 10 * 4096);
  CHECK(tree.need.inodes == 12);
  CHECK(tree.time != "");
  CHECK(tree.advice.empty());
  const PlanItem file = plan.of("data.bin");
  CHECK(file.what == "file");
  CHECK(file.files.value == 1);
  CHECK(file.bytes.value == 5000);
}

TEST_CASE("plan: links that lead out of a directory") {
  const Plan plan;
  plan.shell(
      "mkdir -p blobs/in snap/d; head -c 5000 /dev/zero >blobs/1; head -c 7000 /dev/zero "
      ">blobs/in/2; ln -s ../1 blobs/in/up; ln -s ../blobs/1 snap/file; ln -s ../../blobs/in "
      "snap/d/in; "
      "ln -s file snap/same; ln -s /nowhere snap/none; ln -s ../../snap snap/d/loop");
  const PlanItem kept = plan.of("snap");
  CHECK(kept.files.value == 5);
  REQUIRE(kept.advice.size() == 1);
  CHECK(kept.advice[0] ==
        "no byte of data is in it: 4 links lead out of it, such as d/in -> "
        "../../blobs/in (links=follow takes what they point to)");
  DatasetItem item{.source = plan.scratch / "snap", .links = Links::follow};
  const PlanItem followed = plan_dataset(item, 4);
  CHECK(followed.bytes.value == 5000 + 7000 + 5000);
  CHECK(followed.files.value == 6);
  REQUIRE(followed.advice.size() == 1);
  CHECK(followed.advice[0] ==
        "3 links that lead out of it are followed; 2 links lead nowhere or back, and "
        "stay links, such as d/loop -> ../../snap");
  CHECK(followed.fault == "");
}

// Were all of it read, this would not end.
TEST_CASE("plan: of a large file in a directory only the beginning is read") {
  const Plan plan;
  constexpr std::uint64_t k_size = std::uint64_t{8} << 40;
  fs::create_directory(plan.scratch / "large");
  std::ofstream(plan.scratch / "large/zeros").flush();
  fs::resize_file(plan.scratch / "large/zeros", k_size);
  const PlanItem item = plan.of("large");
  CHECK(item.fault == "");
  CHECK(item.bytes.value == k_size);
  CHECK(has(item.time, "the first 1 file took"));
}

TEST_CASE("plan: a large file that was read in part is one file") {
  const Plan plan;
  plan.shell(
      "truncate -s 100G big; (tar cf - big || :) | head -c 512 >one.tar; truncate -s "
      "$((512 + (100 << 30) + 1024)) one.tar; rm big");
  const PlanItem item = plan.of("one.tar");
  CHECK(item.files.value == 1);
  CHECK(item.files.surety == Surety::guessed);
  CHECK(item.bytes.value >= 100ULL << 30);
}

TEST_CASE("plan: a glob is the sum of what it matches") {
  const Plan plan;
  plan.shell("for i in 1 2 3; do tar cf s$i.tar -C tree sub; done");
  const PlanItem item = plan.of("s*.tar");
  CHECK(item.fault == "");
  CHECK(item.sources == 3);
  CHECK(item.what == "3 × tar");
  CHECK(item.files.value == 30);
  CHECK(item.files.surety == Surety::guessed);
}

TEST_CASE("plan: of the sources of an array's tasks, the largest that exists is planned") {
  const Plan plan;
  plan.shell("printf xx >s2; printf xxxx >s3; printf xxx >s4");
  DatasetItem item{.source = plan.scratch / "s%a"};
  const PlanItem all = plan_dataset(item, 4, "2-4");
  CHECK(all.fault == "");
  CHECK(all.tasks == 3);
  CHECK(all.tasks_bytes == 9);
  CHECK(all.tasks_largest == plan.scratch / "s3");
  CHECK(all.bytes.value == 4);
  const PlanItem short_look = plan_dataset(item, 4, "2-4", std::chrono::milliseconds(0));
  CHECK(short_look.tasks == 3);
  CHECK(short_look.tasks_looked == 1);
  CHECK(short_look.tasks_largest == plan.scratch / "s2");
  const PlanItem most = plan_dataset(item, 4, "1-4");
  CHECK(most.fault == "1 source of 4 does not exist: " + (plan.scratch / "s1") +
                          "\nMake what is missing before the job starts, or leave its index out "
                          "of --array=");
  CHECK(most.tasks_largest == plan.scratch / "s3");
  const PlanItem none = plan_dataset(item, 4, "7,9");
  CHECK(has(none.fault, "2 sources of 2 do not exist: "));
  CHECK(none.tasks_largest == "");
  CHECK_FALSE(none.has_source);
  CHECK(has(plan_dataset(item, 4).fault, "is no array"));
  item.optional = true;
  const PlanItem optional = plan_dataset(item, 4, "1-4");
  CHECK(optional.fault == "");
  REQUIRE(optional.advice.size() == 1);
  CHECK(has(optional.advice[0], "1 source of 4 does not exist: "));
  CHECK(optional.bytes.value == 4);
  CHECK(plan_dataset(item, 4, "7,9").fault == "");
  CHECK(plan_dataset(item, 4).fault == "");  // without an array, it has no value
}

TEST_CASE(
    "plan: a name that is known in the job alone is advice, and one that is not there is not") {
  const Plan plan;
  DatasetItem item{.source = plan.scratch / "none-%n"};
  CHECK(plan_dataset(item, 4).fault == (plan.scratch / "none-0") +
                                           " does not exist\nMake what is missing before the job "
                                           "starts");
  for (const char* name : {"s-%j", "s-%r", "s-%N"}) {
    CAPTURE(name);
    item.source = plan.scratch / name;
    const PlanItem later = plan_dataset(item, 4);
    CHECK(later.fault == "");
    CHECK_FALSE(later.has_source);
    REQUIRE(later.advice.size() == 1);
    CHECK(has(later.advice[0], "known when the job runs"));
  }
}

TEST_CASE("plan: what newest= would choose now is told and counted, and nothing else") {
  const Plan plan;
  plan.shell(
      "mkdir run; cd run; for i in 1 2 3; do mkdir d$i; head -c 5000 /dev/zero > d$i/x; head -c "
      "1000 /dev/zero > c$i.pt; touch -d 2024-01-0$i d$i c$i.pt; done; ln -s c1.pt latest");
  DatasetItem item{.source = plan.scratch / "run", .newest = 2};
  SUBCASE("of a directory") {
    const PlanItem all = plan_dataset(item, 4);
    CHECK(all.fault == "");
    CHECK(all.newest == std::vector<std::string>{"d3", "c3.pt"});
    CHECK(all.newest_among == 6);
    CHECK(all.newest_text == "the newest 2 of 6: d3, c3.pt");
    CHECK(all.what == "directory");
    CHECK(all.destination == "run");
    CHECK(all.files.value == 2);
    CHECK(all.bytes.value == 6000);
    CHECK(all.need.bytes == 8192 + 4096);
    CHECK(all.need.inodes == 4);
  }
  SUBCASE("after include and exclude") {
    item.include = {"*.pt"};
    item.exclude = {"c3*"};
    const PlanItem some = plan_dataset(item, 4);
    CHECK(some.newest == std::vector<std::string>{"c2.pt", "c1.pt"});
    CHECK(some.bytes.value == 2000);
    CHECK(some.advice.empty());
    item.include.clear();  // inside of the directory that is chosen, something may be excluded
    CHECK(plan_dataset(item, 4).advice.size() == 1);
  }
  SUBCASE("of a glob") {
    item.source += "/*.pt";
    const PlanItem some = plan_dataset(item, 4);
    CHECK(some.newest_text == "the newest 2 of 3: c3.pt, c2.pt");
    CHECK(some.sources == 2);
    CHECK(some.bytes.value == 2000);
  }
  SUBCASE("what the worker would refuse") {
    item.include = {"none"};
    CHECK(has(plan_dataset(item, 4).fault, "leave out all that is in it (7 entries)\n"));
    item.source = plan.scratch / "data.bin";
    CHECK(has(plan_dataset(item, 4).fault, "is a file, and newest= chooses"));
    item.source = plan.scratch / "missing";
    CHECK(has(plan_dataset(item, 4).fault, "with the key optional"));
  }
}

TEST_CASE("plan: the interval of an output") {
  const Plan plan;
  OutputItem item{"results", plan.scratch / "out"};
  CHECK(plan_output(item).what == "copied, always");
  item.every_s = 900;
  const std::string every = "copied, always, and every 15 min 00 s while the job runs";
  CHECK(plan_output(item).what == every + ", or less often if your site sets a longer interval");
  CHECK(plan_output(item, 60).what == every);
  CHECK(plan_output(item, 1800).what ==
        "copied, always, and every 30 min 00 s while the job runs, as this site delivers no more "
        "often than that (every=900)");
  CHECK(plan_output(item, 1800).every_s == 1800);
  CHECK(plan_output(item).every_s == 900);
}

TEST_CASE("plan: what could not be staged is told with its cause") {
  const Plan plan;
  plan.shell(
      "tar czf c.tar.gz tree; head -c 100 c.tar.gz >cut.tar.gz; zip -qrP x p.zip tree; "
      "7z a -px p.7z tree");
  CHECK(has(plan.of("missing").fault, "No such file"));
  CHECK(has(plan.of("cut.tar.gz").fault, "cut.tar.gz"));
  for (const std::string name : {"p.zip", "p.7z"})
    CHECK(has(plan.of(name).fault, "protected with a password"));
  CHECK(has(plan.of("none*.tar").fault, "no file matches"));
}

TEST_CASE("plan shows how an environment is made and where results go") {
  const Plan plan;
  fs::create_directories(plan.scratch / "venv");
  std::ofstream(plan.scratch / "requirements.txt") << "numpy\n";
  VenvItem venv;
  venv.source = plan.scratch / "venv";
  const PlanItem there = plan_venv(venv, 4);
  CHECK(there.what == "virtual environment");
  CHECK(there.destination == "env");
  REQUIRE(there.advice.size() == 1);
  CHECK(has(there.advice[0], "nodestage pack"));
  venv.source = plan.scratch / "requirements.txt";
  const PlanItem built = plan_venv(venv, 4);
  CHECK(built.what == "requirements file");
  CHECK(built.seconds < 0);
  const PlanItem good = plan_output({"results", plan.scratch / "out_%j/x.tar.zst", When::success});
  CHECK(good.what == "packed into one archive, after success");
  CHECK(good.fault == "");
}

TEST_CASE("plan: an environment's private interpreter counts, but not with python=keep") {
  const Plan plan;
  plan.shell(
      "mkdir -p py/bin py/lib/python3.7/site-packages e/bin e/lib/python3.7; cp /bin/true "
      "py/bin/python3.7; ln -s $PWD/py/bin/python3.7 e/bin/python; echo home = $PWD/py/bin "
      ">e/pyvenv.cfg; head -c 3000 /dev/zero | tee py/lib/python3.7/os.py "
      ">py/lib/python3.7/site-packages/x; [ $(id -u) != 0 ] || chown -R 65534 py e");
  VenvItem venv;
  venv.source = plan.scratch / "e";
  const PlanItem own = plan_venv(venv, 4);
  REQUIRE(own.advice.size() == 2);
  CHECK(own.advice[1] == "its interpreter " + (plan.scratch / "py") +
                             " (about 2.9 KiB) is staged, too; python=keep leaves it there");
  venv.python = "keep";
  const PlanItem kept = plan_venv(venv, 4);
  CHECK(kept.advice.size() == 1);
  CHECK(kept.bytes.value + 3000 == own.bytes.value);
}

TEST_CASE("plan: root decodes nobody's archive") {
  const Plan tree;
  PlanArguments arguments{.texts = {.datasets = {tree.scratch / "data.bin"}}};
  CHECK(plan(arguments) == (::geteuid() == 0 ? k_fault : 0));
}

TEST_CASE("plan: the site's rate is the least that reading takes") {
  PlanItem plan{.source_bytes = {90ULL << 20, Surety::exact}, .seconds = 0.4};
  keep_to_rate(0, plan);
  CHECK(plan.seconds == 0.4);
  keep_to_rate(1ULL << 20, plan);
  CHECK(plan.seconds == 90);
  CHECK(has(plan.time, "1.0 MiB/s together (read.max_rate)"));
  keep_to_rate(1ULL << 30, plan);
  CHECK(plan.seconds == 90);
  plan.seconds = -1;  // not known
  keep_to_rate(1ULL << 20, plan);
  CHECK(plan.seconds == -1);
}
