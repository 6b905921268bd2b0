#include <doctest/doctest.h>

#include "common/request/destinations.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "piece_run.hpp"

using namespace nodestage;

TEST_CASE("what is no archive is copied as it is") {
  PieceRun run;
  REQUIRE(run.shell("seq 1000 > x.csv; gzip -k x.csv; : > empty; truncate -s 100K zeros; "
                    "printf '\\037\\213\\010broken' > odd.gz; zip -q w.npz x.csv; zip -q W.DOCX "
                    "x.csv; zip -q z.zip x.csv; "
                    "gzip z.zip") == 0);
  for (const std::string name :
       {"x.csv", "x.csv.gz", "empty", "zeros", "odd.gz", "w.npz", "W.DOCX", "z.zip.gz"}) {
    CAPTURE(name);
    CHECK(run.build(run.scratch / name) == "");
    CHECK(run.kind == "file");
    CHECK(run.name == name);
    CHECK(run.shell("cmp " + name + " " + run.out()) == 0);
    struct stat from {};
    REQUIRE(::stat((run.scratch / name).c_str(), &from) == 0);
    CHECK(run.bytes_read == static_cast<std::uint64_t>(from.st_size));
  }
  run.build(run.scratch / "x.csv.gz");
  CHECK(run.note == "not an archive: copied as it is");
}

TEST_CASE("a name that claims an archive must hold one") {
  PieceRun run;
  REQUIRE(run.shell(": > e.tar; echo '<html>' > h.tar.gz; seq 1000 > s.zip; echo hello | gzip > "
                    "g.tgz; echo '<html>' > "
                    "H.ZIP") == 0);
  CHECK(run.build(run.scratch / "e.tar").find("empty (0 bytes)") != std::string::npos);
  for (const std::string name : {"h.tar.gz", "s.zip", "g.tgz", "H.ZIP"}) {
    CHECK(run.build(run.scratch / name).find("is named like an archive, but is not one") !=
          std::string::npos);
    run.item.extract = Extract::no;
    CHECK(run.build(run.scratch / name) == "");
    CHECK(run.name == name);
    run.item.extract = Extract::automatic;
  }
}

TEST_CASE("an empty tar is an empty directory") {
  PieceRun run;
  REQUIRE(run.shell("tar cf e.tar -T /dev/null") == 0);
  CHECK(run.build(run.scratch / "e.tar") == "");
  CHECK(run.kind == "tar");
  CHECK(run.name == "e");
  CHECK(run.shell("rmdir " + run.out()) == 0);
}

TEST_CASE("a directory that is named like an archive has the place that is told of it") {
  PieceRun run;
  REQUIRE(run.shell("mkdir -p d.tar; echo x > d.tar/f") == 0);
  CHECK(run.build(run.scratch / "d.tar") == "");
  CHECK(run.name == destination_of(DatasetItem{.source = run.scratch / "d.tar"}));
}

TEST_CASE("sources that are not there, or neither file nor directory") {
  PieceRun run;
  REQUIRE(run.shell("mkfifo fifo; ln -s nowhere dangling; echo x > f; ln -s f good") == 0);
  CHECK(run.build(run.scratch / "fifo").find("a FIFO") != std::string::npos);
  CHECK(run.build("/dev/zero").find("a device") != std::string::npos);
  CHECK(run.build(run.scratch / "nothing").find("No such file") != std::string::npos);
  CHECK(run.build(run.scratch / "dangling").find("No such file") != std::string::npos);
  CHECK(run.build(run.scratch / "good") == "");
}

TEST_CASE("strip, include and exclude") {
  PieceRun run;
  REQUIRE(run.shell("mkdir -p top/train top/val/deep; for f in train/1.png train/1.txt val/2.png "
                    "val/deep/3.png; do echo $f > top/$f; done; tar cf x.tar top") == 0);
  const auto files = [&] {
    return run.shell("cd " + run.out() + " && find . -type f | sort > ../files");
  };
  run.item.strip = 1;
  run.item.include = {"*.png"};
  run.item.exclude = {"val/deep"};
  CHECK(run.build(run.scratch / "x.tar") == "");
  REQUIRE(files() == 0);
  CHECK(slurp(run.scratch / "files") == "./train/1.png\n./val/2.png\n");
  run.item = {};
  run.item.include = {"val"};
  CHECK(run.build(run.scratch / "top") == "");
  REQUIRE(files() == 0);
  CHECK(slurp(run.scratch / "files") == "./val/2.png\n./val/deep/3.png\n");
  CHECK(run.shell("test ! -e " + run.out("train")) == 0);
  run.item = {};
  run.item.strip = 9;
  CHECK(run.build(run.scratch / "x.tar").find("leave nothing") != std::string::npos);
  run.item = {};
  run.item.include = {"*.jpeg"};
  CHECK(run.build(run.scratch / "x.tar").find("leave nothing") != std::string::npos);
  CHECK(run.build(run.scratch / "top").find("leave nothing") != std::string::npos);
}

TEST_CASE("a glob that makes no difference is told") {
  PieceRun run;
  REQUIRE(
      run.shell("mkdir -p t/train t/val; echo x | tee t/train/f > t/val/f; tar cf t.tar -C t .; "
                "cd t; zip -qr ../t.zip .; 7z a ../t.7z . > /dev/null") == 0);
  for (const std::string name : {"t", "t.tar", "t.zip", "t.7z"}) {
    CAPTURE(name);
    run.item.include = {"train"};
    run.item.exclude = {"val"};
    CHECK(run.build(run.scratch / name) == "");
    CHECK(run.idle_globs == "");
    run.item.include = {"train", "vall"};
    CHECK(run.build(run.scratch / name) == "");
    CHECK(run.idle_globs == "include=vall selects nothing");
    CHECK(run.note == "");
  }
}

TEST_CASE("a disk that is too full") {
  PieceRun run;
  run.leave_free = 1ULL << 60;
  REQUIRE(run.shell("seq 1000 > f; tar cf x.tar f; zip -q x.zip f") == 0);
  for (const std::string name : {"f", "x.tar", "x.zip"}) {
    const std::string fault = run.build(run.scratch / name);
    CHECK(fault.find("of local disk, but node n1 has") != std::string::npos);
    CHECK(fault.find("1048576.0 TiB must stay free") == std::string::npos);
  }
}

TEST_CASE("what a glob's other archives have become makes no bomb of a small one") {
  PieceRun run;
  REQUIRE(run.shell("echo x > f; tar cf x.tar f; tar czf x.tar.gz f; zip -q x.zip f") == 0);
  run.written_before = std::uint64_t{1} << 50;
  for (const std::string name : {"x.tar", "x.tar.gz", "x.zip"}) {
    CAPTURE(name);
    CHECK(run.build(run.scratch / name) == "");
  }
}

TEST_CASE("a note for entries that their owner cannot read") {
  PieceRun run;
  REQUIRE(
      run.shell(
          "mkdir -p t/closed t/open && echo a >t/none && echo b >t/group && echo c >t/open/c && "
          "tar cf t.tar -C t --mode=0 ./none ./closed && "
          "tar rf t.tar -C t --mode=040 ./group && tar rf t.tar -C t --mode=u+rwx ./open") == 0);
  CHECK(run.build(run.scratch / "t.tar") == "");
  CHECK(run.note == "3 entries have a mode that keeps you from reading, such as closed (mode 000)");
  if (::geteuid() != 0) return;
  REQUIRE(run.shell("chmod 000 t/none") == 0);
  CHECK(run.build(run.scratch / "t") == "");
  CHECK(run.note == "1 entry has a mode that keeps you from reading, such as none (mode 000)");
  CHECK(run.build(run.scratch / "t/none") == "");
  CHECK(run.note.find("(mode 000)") != std::string::npos);
}

TEST_CASE("an archive of nothing but links that lead out of it says so") {
  PieceRun run;
  REQUIRE(
      run.shell("mkdir -p s/d && ln -s ../blob s/a && ln -s ../a s/d/b && tar cf s.tar -C s . && "
                "echo x >s/x && tar cf x.tar -C s .") == 0);
  CHECK(run.build(run.scratch / "s.tar") == "");
  CHECK(run.link_note ==
        "no byte of data is in it: 1 link leads out of it, such as a -> ../blob (an "
        "archive of nodestage pack --dereference takes what they point to)");
  CHECK(run.build(run.scratch / "x.tar") == "");
  CHECK(run.link_note == "");
}
