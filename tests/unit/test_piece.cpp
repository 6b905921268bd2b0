#include <doctest/doctest.h>

#include <chrono>
#include <mutex>

#include "common/request/destinations.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "piece_run.hpp"
#include "sizes.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// Changes its source a number of times, each time when all of it was read.
struct ChangedRun : NamedRun {
  ChangedRun() {
    settle.young = std::chrono::hours(1);
    settle.wait = [this](SettleRules::Time time) {
      const std::lock_guard lock(mutex);
      if (time != settle.between && times-- > 0) REQUIRE(shell(change) == 0);
    };
  }
  std::string change;
  int times = 0;
  std::mutex mutex;
};

}  // namespace

TEST_CASE("a source that is changed while it is read is read again, and then the fault names it") {
  ChangedRun run;
  run.prepare("seq 9 > f; mkdir t; seq 9 > t/f; tar cf t.tar t; tar czf t.tgz t");
  struct Case {
    std::string source, change, made;
  };
  for (const auto& one : {Case{"f", "echo more >> f", ""},
                          {"t.tar", "seq 5 > t/f; tar cf t.tar t", "t/f"},
                          {"t.tgz", "seq 7 > t/f; tar czf t.tgz t", "t/f"}}) {
    CAPTURE(one.source);
    run.change = one.change;
    run.times = 2;
    CHECK(run.build(one.source) == "");
    CHECK(run.shell("cmp " + (one.made.empty() ? "f" : one.made) + " " + run.out(one.made)) == 0);
    run.times = 3;
    const std::string fault = run.build(one.source);
    CHECK(has(fault, "/" + one.source +
                         ": was being written: it was read 3 times, and changed each time"));
  }
  run.change = "cp t.tgz whole; truncate -s 0 t.tgz";
  run.times = 1;
  CHECK(has(run.build("t.tgz"), "was being written"));
  run.change = "chmod 600 f; ln f g";  // no change of the content
  run.times = 1;
  CHECK(run.build("f") == "");
}

TEST_CASE("in a directory, a file that only grows is noted, and any other one is a fault") {
  ChangedRun run;
  run.prepare("mkdir d; seq 9 > d/log; head -c 40M /dev/zero > d/large");
  run.change = "echo more >> d/log; echo more >> d/large";
  run.times = 1;
  CHECK(run.build("d") == "");
  CHECK(run.note == "");
  CHECK(run.shell("diff -r d " + run.out()) == 0);
  run.times = 100;
  CHECK(run.build("d") == "");
  CHECK(run.note ==
        "2 files were being written, and the copy has what was in each then: large and others");
  run.change = "echo other > d/log";
  run.times = 100;
  CHECK(has(run.build("d"), "/d/log: was being written"));
}

TEST_CASE("an empty tar is an empty directory") {
  PieceRun run("tar cf e.tar -T /dev/null");
  CHECK(run.build("e.tar") == "");
  CHECK(run.kind == "tar");
  CHECK(run.name == "e");
  CHECK(run.shell("rmdir " + run.out()) == 0);
}

TEST_CASE("a directory that is named like an archive has the place that is told of it") {
  PieceRun run("mkdir -p d.tar; echo x > d.tar/f");
  CHECK(run.build("d.tar") == "");
  CHECK(run.name == destination_of(DatasetItem{.source = run.scratch / "d.tar"}));
}

TEST_CASE("sources that are not there, or neither file nor directory") {
  PieceRun run("mkfifo fifo; ln -s nowhere dangling; echo x > f; ln -s f good");
  for (const auto& row : {std::pair{"fifo", "a FIFO"},
                          {"/dev/zero", "a device"},
                          {"nothing", "No such file"},
                          {"dangling", "No such file"}}) {
    CAPTURE(row.first);
    CHECK(has(run.build(row.first), row.second));
  }
  CHECK(run.build("good") == "");
}

TEST_CASE("strip, include and exclude") {
  PieceRun run(
      "mkdir -p top/train top/val/deep; for f in train/1.png train/1.txt val/2.png "
      "val/deep/3.png; do echo $f > top/$f; done; tar cf x.tar top");
  const auto files_of = [&](const std::string& name) {
    CHECK(run.build(name) == "");
    REQUIRE(run.shell("cd " + run.out() + " && find . -type f | sort > ../files") == 0);
    return file_text(run.scratch / "files");
  };
  run.item.strip = 1;
  run.item.include = {"*.png"};
  run.item.exclude = {"val/deep"};
  CHECK(files_of("x.tar") == "./train/1.png\n./val/2.png\n");
  run.item = {};
  run.item.include = {"val"};
  CHECK(files_of("top") == "./val/2.png\n./val/deep/3.png\n");
  CHECK(run.shell("test ! -e " + run.out("train")) == 0);
  run.item = {};
  run.item.strip = 9;
  CHECK(has(run.build("x.tar"), "x.tar: strip= leaves nothing of it"));
  run.item = {};
  run.item.include = {"*.jpeg"};
  CHECK(has(run.build("x.tar"), "x.tar: include= leaves nothing of it"));
  CHECK(has(run.build("top"), "top: include= leaves nothing of it"));
  run.item.strip = 1;
  run.item.exclude = {"top"};
  CHECK(has(run.build("x.tar"), "x.tar: strip=, include= and exclude= leave nothing of it"));
}

TEST_CASE("keys for entries have no meaning for a file that is copied, and that is noted") {
  NamedRun run("seq 1000 > labels.h5; tar cf x.tar labels.h5");
  run.item.include = {"train"};
  CHECK(run.build("labels.h5") == "");
  CHECK(run.note == "it was copied as one file, for which include= had no meaning");
  run.item = {};
  run.item.extract = Extract::no;
  run.item.strip = 1;
  CHECK(run.build("x.tar") == "");
  CHECK(run.kind == "file");
  CHECK(run.note == "it was copied as one file, for which strip= had no meaning");
}

TEST_CASE("a glob that makes no difference is told") {
  PieceRun run(
      "mkdir -p t/train t/val; echo x | tee t/train/f > t/val/f; tar cf t.tar -C t .; "
      "cd t; zip -qr ../t.zip .; 7z a ../t.7z . > /dev/null");
  for (const std::string name : {"t", "t.tar", "t.zip", "t.7z"}) {
    CAPTURE(name);
    run.item.include = {"train"};
    run.item.exclude = {"val"};
    CHECK(run.build(name) == "");
    CHECK(run.idle_globs == "");
    run.item.include = {"train", "vall"};
    CHECK(run.build(name) == "");
    CHECK(run.idle_globs == "include=vall selects nothing");
    CHECK(run.note == "");
  }
}

TEST_CASE("on a disk that is too full staging fails with the name of the node") {
  PieceRun run;
  run.leave_free = 1ULL << 60;
  run.prepare("seq 1000 > f; tar cf x.tar f; zip -q x.zip f");
  for (const std::string name : {"f", "x.tar", "x.zip"}) {
    const std::string fault = run.build(name);
    CHECK(has(fault, "of local disk, but node n1 has"));
    CHECK_FALSE(has(fault, "1048576.0 TiB must stay free"));
  }
}

TEST_CASE("what a glob's other archives have become makes no bomb of a small one") {
  PieceRun run("echo x > f; tar cf x.tar f; tar czf x.tar.gz f; zip -q x.zip f");
  run.written_before = std::uint64_t{1} << 50;
  for (const std::string name : {"x.tar", "x.tar.gz", "x.zip"})
    CHECK_MESSAGE(run.build(name) == "", name);
}

TEST_CASE("a note for entries that their owner cannot read") {
  PieceRun run(
      "mkdir -p t/closed t/open && echo a >t/none && echo b >t/group && echo c >t/open/c && "
      "tar cf t.tar -C t --mode=0 ./none ./closed && "
      "tar rf t.tar -C t --mode=040 ./group && tar rf t.tar -C t --mode=u+rwx ./open");
  CHECK(run.build("t.tar") == "");
  CHECK(run.note == "3 entries have a mode that keeps you from reading, such as closed (mode 000)");
  if (::geteuid() != 0) return;
  run.prepare("chmod 000 t/none");
  CHECK(run.build("t") == "");
  CHECK(run.note == "1 entry has a mode that keeps you from reading, such as none (mode 000)");
  CHECK(run.build("t/none") == "");
  CHECK(has(run.note, "(mode 000)"));
}

TEST_CASE("an archive of nothing but links that lead out of it says so") {
  PieceRun run(
      "mkdir -p s/d && ln -s ../blob s/a && ln -s ../a s/d/b && tar cf s.tar -C s . && "
      "echo x >s/x && tar cf x.tar -C s .");
  CHECK(run.build("s.tar") == "");
  CHECK(run.link_note ==
        "no byte of data is in it: 1 link leads out of it, such as a -> ../blob (an "
        "archive of nodestage pack --dereference takes what they point to)");
  CHECK(run.build("x.tar") == "");
  CHECK(run.link_note == "");
}

namespace {

PieceLook look(const PieceRun& run, const std::string& name,
               std::chrono::milliseconds limit = std::chrono::minutes(1)) {
  Metered metered;
  auto piece = must(Piece::open(run.scratch / name, run.item, metered.meter, {3}));
  return must(piece.look(limit));
}

// Of one source, as a dataset with `item` would need it.
Need need_of(const PieceRun& run, const std::string& name) {
  Metered metered;
  auto piece = must(Piece::open(run.scratch / name, run.item, metered.meter, {}));
  return must(piece.need());
}

bool about(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes >= wanted && bytes < wanted + wanted / 10 + 64 * 1024;
}

}  // namespace

TEST_CASE("a look counts what it comes to, and writes nothing") {
  PieceRun run(
      "mkdir d; head -c 3M /dev/zero >d/a; echo b >d/b; tar cf t.tar d; gzip -k t.tar;"
      "zip -qr z.zip d; cp d/a plain");
  for (const std::string name : {"t.tar", "t.tar.gz"}) {
    CAPTURE(name);
    const PieceLook all = look(run, name);
    CHECK(all.is_whole);
    CHECK(all.files == 2);
    CHECK(all.bytes == 3 * 1024 * 1024 + 2);
    CHECK(all.spent.count() > 0);
    CHECK(!all.index);
  }
  const PieceLook zip = look(run, "z.zip");
  REQUIRE(zip.index);
  CHECK(zip.index->files == 2);
  CHECK(zip.index->bytes == 3 * 1024 * 1024 + 2);
  CHECK(zip.index->is_plain);
  const PieceLook plain = look(run, "plain");
  CHECK(plain.is_whole);
  CHECK(plain.position == 3 * 1024 * 1024);
  CHECK(!look(run, "t.tar", std::chrono::milliseconds(0)).is_whole);
}

TEST_CASE("the need is known where file or format tell it") {
  PieceRun run(
      "head -c 4M /dev/zero >f; mkdir d; cp f d/f; tar cf t.tar f; gzip -k t.tar; "
      "xz -k t.tar; zstd -q t.tar; zip -qr z.zip d; head -c 100K /dev/zero | split "
      "-b 100 -a 3 - d/s; zip -qr many.zip d");
  for (const std::string name : {"f", "t.tar", "t.tar.gz", "t.tar.xz", "t.tar.zst", "z.zip"}) {
    CAPTURE(name);
    const Need need = need_of(run, name);
    CHECK(about(need.expected.bytes, 4 * k_mib));
    CHECK(need.least.bytes == need.expected.bytes);
    CHECK(need.least.inodes >= 1);
  }
  // Each small file takes a block: 1024 of them, f, the directory, and that of the destination.
  const Need many = need_of(run, "many.zip");
  CHECK(many.expected == Amount{8 * k_mib, 1027});
  CHECK(many.least == many.expected);
}

TEST_CASE("globs count in an index; elsewhere nothing is known") {
  PieceRun run(
      "head -c 1M /dev/zero >a.bin; cp a.bin b.bin; zip -q z.zip a.bin b.bin; "
      "tar cf t.tar a.bin b.bin; mkdir d");
  run.item.include = {"a*"};
  CHECK(need_of(run, "z.zip").expected == Amount{k_mib, 2});
  CHECK(need_of(run, "t.tar").expected == Amount{});
  CHECK(need_of(run, "d").expected == Amount{});
  run.item = {};
  run.item.strip = 1;
  CHECK(need_of(run, "t.tar").expected.bytes > 2 * k_mib);
  CHECK(need_of(run, "t.tar").least == Amount{});
}

TEST_CASE("holes of sparse files need no space") {
  PieceRun run(
      "truncate -s 10G holes; head -c 1M /dev/urandom >>holes; "
      "tar cSf t.tar holes");
  CHECK(need_of(run, "holes").expected.bytes <= 2 * k_mib);
  CHECK(need_of(run, "t.tar").expected.bytes <= 2 * k_mib);
}

TEST_CASE("what a format does not tell is guessed, and at least the size of the source") {
  PieceRun run(
      "head -c 1M /dev/urandom >f; tar cf t.tar f; bzip2 -k t.tar; lz4 -q t.tar t.tar.lz4; "
      "7z a -bso0 s.7z f; zstd -q - <t.tar >piped.tar.zst; "
      "(head -c 1M t.tar | gzip; tail -c +1048577 t.tar | gzip) >members.tar.gz; "
      "printf 'tail of no use' | cat t.tar.bz2 - >tail.tar.bz2");
  for (const std::string name :
       {"t.tar.bz2", "t.tar.lz4", "s.7z", "piped.tar.zst", "members.tar.gz", "tail.tar.bz2"}) {
    CAPTURE(name);
    const Need need = need_of(run, name);
    CHECK(about(need.least.bytes, k_mib));
    CHECK(about(need.expected.bytes, 2 * k_mib));
  }
}
