#include <doctest/doctest.h>
#include <fcntl.h>

#include "daemon/worker/copy/copied_directories.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/copy/copy_tree.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "piece_run.hpp"
#include "stage_run.hpp"

using namespace nodestage;

TEST_CASE("a directory becomes what cp -a makes of it") {
  StageRun stage(
      "mkdir -p s/ro/in s/gid s/empty && cd s && echo a > ro/in/f && echo b > plain && "
      "chmod 751 plain && "
      "ln plain ro/in/h && ln -s /nowhere l && touch -hd '2001-02-03 04:05:06.789' l && "
      "touch -d '1999-01-01 00:00:00.123456789' plain && truncate -s 30M sparse && "
      "echo middle | dd of=sparse bs=1M seek=10 conv=notrunc status=none && "
      "head -c 3000000 /dev/urandom > big && chmod 2770 gid && chmod 4755 plain && "
      "touch -d '2010-01-01' ro/in ro && chmod 555 ro/in ro && cd .. && cp -a s ref && "
      "chmod u-s ref/plain");
  stage.add("s").destination = "x/y";
  stage.request.umask = 077;
  REQUIRE(stage.run() == 0);
  const std::string list = " -printf '%P %y %m %T@ %s %b %l %n\\n' | sort > ";
  stage.prepare("find ref" + list + "1; find ../job/x/y" + list + "2; diff 1 2");
  CHECK(stage.in_data("diff -r --no-dereference ref ../job/x/y") == 0);
  CHECK(stage.in_data("test $(stat -c %a ../job/x) = 700") == 0);
}

TEST_CASE("what cannot be copied is left out and counted") {
  PieceRun run("mkdir s; mkfifo s/fifo; echo x > s/f; mkfifo s/g");
  CHECK(run.build("s") == "");
  CHECK(run.note == "2 FIFOs, sockets or devices left out");
  CHECK(run.shell("test \"$(ls " + run.out() + ")\" = f") == 0);
}

TEST_CASE("a file that cannot be read is a fault that names it") {
  StageRun stage("mkdir -p s/a; echo x > s/a/secret; chmod 0 s/a/secret");
  stage.add("s");
  CHECK(stage.run() == 1);
  CHECK(has(stage.status.cause, stage.data() + "/s/a/secret: cannot be read: Permission denied"));
  CHECK(stage.in_job("test -z \"$(ls -A)\""));
}

TEST_CASE("a tree of 1100 levels") {
  PieceRun run("d=s$(printf '/d%.0s' $(seq 1100)); mkdir -p $d && echo x > $d/f");
  CHECK(run.build("s") == "");
  CHECK(run.shell("find " + run.out() + " -name f | wc -l | grep -qx 1") == 0);
  CHECK(run.shell("rm -rf s out1") == 0);
}

namespace {

int bash(const PieceRun& run, const std::string& script) {
  write_file(run.scratch / "script", script);
  return run.shell("bash script");
}

// Everything that a copy keeps, a line for each entry.
std::string listing(const std::string& where, const std::string& into) {
  return "(cd " + where + " && find . -printf '%P %y %m %T@ %s %n %l\\n' | sort) > " + into + "; ";
}

void check_same(const PieceRun& run, const std::string& source) {
  CHECK(run.shell(listing(source, "1") + listing(run.out(), "2") + "cmp 1 2") == 0);
  CHECK(run.is_same(source));
}

}  // namespace

TEST_CASE("a tree of thousands of directories") {
  PieceRun run;
  REQUIRE(bash(run,
               "mkdir -p s/{1..12}/{1..12}/{1..14} && "
               "for d in s/*/*; do echo $d > $d/f; ln -s f $d/l; done; "
               "chmod 700 s/3/*; chmod 500 s/4/*; find s/5 -type d -exec touch -d @9.5 {} +") == 0);
  CHECK(run.build("s") == "");
  check_same(run, "s");
}

TEST_CASE("a directory of 50,000 names, most of them of one file") {
  PieceRun run;
  const std::string source = run.scratch / "s";
  std::filesystem::create_directory(source);
  write_file(source + "/name", "content");
  for (int i = 1; i < 40'000; ++i) {
    const std::string name = source + "/" + std::to_string(i);
    REQUIRE(::link((source + "/name").c_str(), name.c_str()) == 0);
  }
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE(::symlink("name", (source + "/link" + std::to_string(i)).c_str()) == 0);
  }
  CHECK(run.build(source) == "");
  struct stat info {};
  REQUIRE(::stat(run.out("name").c_str(), &info) == 0);
  CHECK(info.st_nlink == 40'000);
  CHECK(file_text(run.out("39999")) == "content");
  CHECK(bash(run, "test $(ls -f " + run.out() + " | wc -l) = 50002") == 0);
  CHECK(bash(run, "rm -rf s out1") == 0);
}

TEST_CASE("hard links that meet in all directories of a tree") {
  PieceRun run;
  REQUIRE(bash(run,
               "mkdir -p s/{1..60}; for i in {1..60}; do echo $i > s/1/$i; done; "
               "head -c 300000 /dev/zero > s/1/7; ln -s nowhere s/1/60s; "
               "for d in s/{2..60}; do ln -P s/1/* $d; done") == 0);
  CHECK(run.build("s") == "");
  check_same(run, "s");
  CHECK(bash(run,
             "cd out1; test $(for i in $(ls 1); do stat -c %i */$i | sort -u | wc -l; done | "
             "sort -u) = 1") == 0);
}

TEST_CASE("a fault in the middle of a large tree stops the copy and names the file") {
  StageRun stage(
      "mkdir -p s/{1..30}; for d in s/*; do (cd $d; touch {1..60}); done; "
      "chmod 0 s/17/34");
  stage.add("s");
  CHECK(stage.run() == 1);
  CHECK(has(stage.status.cause, stage.data() + "/s/17/34: cannot be read: Permission denied\n"));
  CHECK(stage.in_job("test -z \"$(ls -A)\""));
}

TEST_CASE("a directory that cannot be read is a fault that names it, unless it is left out") {
  StageRun stage("mkdir -p s/a/b s/c; echo x > s/c/f; chmod 0 s/a/b");
  auto& item = stage.add("s");
  SUBCASE("named") {
    CHECK(stage.run() == 1);
    CHECK(has(stage.status.cause, stage.data() + "/s/a/b: cannot be read: Permission denied\n"));
  }
  SUBCASE("left out") {
    item.exclude = {"a/b"};
    CHECK(stage.run() == 0);
    CHECK(stage.in_job("test -d s/a -a ! -e s/a/b -a -e s/c/f"));
  }
}

TEST_CASE("with include= only directories that hold something wanted are made") {
  PieceRun run;
  REQUIRE(bash(run,
               "mkdir -p s/{1..20}/{a,b,c}/{x,y}; for d in s/*/a/x s/*/b; do echo > $d/w.png; "
               "done; for d in s/*/*/[xy]; do echo > $d/n.txt; done; "
               "find s -type d -exec touch -d @7.25 {} +; find s -type d -exec chmod 750 {} +") ==
          0);
  run.item.include = {"*.png", "3/c"};
  CHECK(run.build("s") == "");
  REQUIRE(bash(run,
               "cp -a s ref; cd ref; mv 3/c keep; find . -path ./keep -prune -o -name n.txt "
               "-exec rm {} +; mkdir -p 3/c; rmdir 3/c; mv keep 3/c; "
               "find . -path ./3/c -prune -o -type d -empty -exec rmdir -p {} + 2>/dev/null; "
               "find . -type d -exec touch -d @7.25 {} +") == 0);
  check_same(run, "ref");
}

TEST_CASE("a tree deeper than the directories that are open at a time") {
  PieceRun run;
  REQUIRE(bash(run,
               "mkdir s; (cd s; for i in {1..90}; do mkdir d e; echo $i > f; echo $i > e/g; "
               "chmod 711 d; cd d; done); find s -depth -type d -exec touch -d @3.5 {} +") == 0);
  CHECK(run.build("s") == "");
  check_same(run, "s");
}

TEST_CASE("large files are copied in parts, with their holes") {
  PieceRun run;
  REQUIRE(bash(run,
               "mkdir s; head -c 50000001 /dev/zero | tr '\\0' x > s/dense; "
               "truncate -s 200M s/holes; for at in 0 33 120; do echo $at | "
               "dd of=s/holes bs=1M seek=$at conv=notrunc status=none; done; "
               "truncate -s 99M s/empty; ln s/dense s/same; chmod 4751 s/dense; "
               "touch -d @5.000000001 s/*") == 0);
  CHECK(run.build("s") == "");
  CHECK(bash(run, "chmod u-s s/dense") == 0);
  check_same(run, "s");
  CHECK(bash(run, "test $(stat -c %b out1/holes) -lt 1000 -a $(stat -c %b out1/empty) = 0") == 0);
  CHECK(run.bytes_read == 50000001 + (200 + 99) * 1024 * 1024);
}

// As a hub of models keeps them: names are links to files elsewhere.
TEST_CASE("links that lead out of a directory: a note, or what they point to") {
  PieceRun run(
      "mkdir -p m/blobs m/snapshots/a/sub more/in && echo config >m/blobs/1 && "
      "head -c 40000000 /dev/urandom >m/blobs/2 && chmod 640 m/blobs/2 && "
      "cd m/snapshots/a && ln -s ../../blobs/1 config.json && "
      "ln -s ../../../blobs/2 sub/model.bin && ln -s config.json same && "
      "ln -s ../same sub/up");
  SUBCASE("kept") {
    CHECK(run.build("m/snapshots/a") == "");
    CHECK(run.link_note ==
          "no byte of data is in it: 2 links lead out of it, such as config.json -> "
          "../../blobs/1 (links=follow takes what they point to)");
    run.prepare("echo x >m/snapshots/a/x");
    run.item.exclude = {"sub"};
    CHECK(run.build("m/snapshots/a") == "");
    CHECK(run.link_note ==
          "1 link leads out of it, such as config.json -> ../../blobs/1 "
          "(links=follow takes what they point to)");
  }
  SUBCASE("followed") {
    run.item.links = Links::follow;
    CHECK(run.build("m/snapshots/a") == "");
    CHECK(run.link_note == "2 links that lead out of it are followed");
    CHECK(run.shell("cmp m/blobs/2 out1/sub/model.bin && test ! -L out1/sub/model.bin && "
                    "test $(stat -c %a out1/sub/model.bin) = 640 && cat out1/sub/up && "
                    "test $(readlink out1/same) = config.json") == 0);
    CHECK(file_text(run.out("config.json")) == "config\n");
  }
  SUBCASE("followed to directories, whose own links are theirs") {
    run.item.links = Links::follow;
    run.prepare(
        "echo o >more/o && ln -s ../o more/in/up && ln -s ../../m/blobs/1 more/in/one && "
        "ln -s ../more more/self && ln -s ../../../more m/snapshots/a/dir && "
        "ln -s $PWD/m/snapshots/a m/snapshots/a/loop && ln -s /nowhere m/snapshots/a/none && "
        "mkfifo m/fifo && ln -s ../../fifo m/snapshots/a/fifo");
    CHECK(run.build("m/snapshots/a") == "");
    CHECK(run.note == "1 FIFO, socket or device left out");
    CHECK(run.link_note.starts_with(
        "5 links that lead out of it are followed; 3 links lead nowhere or "
        "back, and stay links, such as dir/self -> ../more"));
    CHECK(run.shell("cd out1 && test ! -L dir && test $(readlink dir/in/up) = ../o && "
                    "cat dir/in/up && test ! -L dir/in/one && test -L loop && test -L none") == 0);
  }
  SUBCASE("exclude= and include= are for the names of links") {
    run.item.links = Links::follow;
    run.item.exclude = {"sub", "config.json"};
    CHECK(run.build("m/snapshots/a") == "");
    CHECK(run.link_note == "");
    CHECK(run.shell("test \"$(ls out1)\" = same") == 0);
  }
}

TEST_CASE("links that are followed: a wide and deep directory behind one, and links without end") {
  PieceRun run;
  run.item.links = Links::follow;
  REQUIRE(bash(run,
               "mkdir -p s o/{1..70}/{1..5}; for d in o/*/*; do echo $d >$d/f; ln -s ../../x $d/l; "
               "done; "
               "echo x >x; echo y >o/x; ln -s ../o s/o; mkdir d{1..20}; "
               "for i in {1..19}; do ln -s ../d$((i+1)) d$i/n; done") == 0);
  CHECK(run.build("s") == "");
  CHECK(run.shell("diff -r o out1/o && test -L out1/o/1/1/l") == 0);
  CHECK(has(run.build("d1"),
            "/d1/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n: cannot be read: Too "
            "many levels of symbolic links"));
}

TEST_CASE("what is behind a link must be readable") {
  StageRun stage("mkdir s closed; echo x >closed/f; chmod 0 closed; ln -s ../closed/f s/f");
  stage.add("s").links = Links::follow;
  CHECK(stage.run() == 1);
  CHECK(has(stage.status.cause, "/s/f: cannot be read: Permission denied"));
  CHECK(stage.in_data("chmod 700 closed") == 0);
}

namespace {

// One file, examined, then changed, then copied.
class ChangingFile {
 public:
  explicit ChangingFile(std::size_t size) : content_(size, 'x') {
    write_file(scratch_ / "from", content_);
    from_ = Fd(::open((scratch_ / "from").c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::fstat(from_.get(), &info_) == 0);
  }

  void resize(std::size_t size) {
    REQUIRE(::ftruncate(from_.get(), static_cast<off_t>(size)) == 0);
  }

  Status copy() {
    Fd to(::open((scratch_ / "to").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return copy_file({from_.get(), info_, "dir/from"}, std::move(to), room_.meter, room_.space);
  }

  [[nodiscard]] bool is_whole() const { return file_text(scratch_ / "to") == content_; }
  [[nodiscard]] const std::atomic<std::uint64_t>& bytes_read() const {
    return room_.meter.bytes_read;
  }

 private:
  Scratch scratch_;
  MeteredRoom room_{scratch_.path()};
  std::string content_;
  Fd from_;
  struct stat info_ {};
};

constexpr std::size_t k_small = 3000;
constexpr std::size_t k_medium = 700'000;
constexpr std::size_t k_large = 9'000'000;

}  // namespace

TEST_CASE("a file that became longer is copied as long as it was") {
  for (const std::size_t size : {k_small, k_medium, k_large}) {
    CAPTURE(size);
    ChangingFile file(size);
    file.resize(size * 2);
    CHECK(file.copy());
    CHECK(file.is_whole());
    CHECK(file.bytes_read() == size);
  }
}

TEST_CASE("a file that became shorter was changed") {
  for (const std::size_t size : {k_small, k_medium, k_large}) {
    for (const std::size_t left : {std::size_t{0}, size / 2, size - 1}) {
      CAPTURE(size);
      CAPTURE(left);
      ChangingFile file(size);
      file.resize(left);
      CHECK(must_fail(file.copy()).code == k_was_changed);
    }
  }
}

namespace {

struct stat file(ino_t inode, nlink_t links) {
  struct stat info {};
  info.st_ino = inode;
  info.st_nlink = links;
  return info;
}

}  // namespace

TEST_CASE("whoever copies a file makes the links that others met meanwhile") {
  SharedLinks<std::string> links;
  using Turn = SharedLinks<std::string>::Met::Turn;
  CHECK(links.meet(file(1, 4), "a", "a").turn == Turn::copy);
  CHECK(links.meet(file(2, 2), "x", "x").turn == Turn::copy);
  CHECK(links.meet(file(1, 4), "b", "b").turn == Turn::left);
  CHECK(links.meet(file(1, 4), "c", "c").turn == Turn::left);
  CHECK(links.done(file(1, 4)) == std::vector<std::string>{"b", "c"});
  const auto last = links.meet(file(1, 4), "d", "d");
  CHECK(last.turn == Turn::link);
  CHECK(last.first == "a");
  // All names were met: one more is a new file, for the source has changed.
  CHECK(links.meet(file(1, 4), "e", "e").turn == Turn::copy);
  CHECK(links.meet(file(2, 2), "y", "y").turn == Turn::left);
  CHECK(links.done(file(2, 2)) == std::vector<std::string>{"y"});
  CHECK(links.meet(file(2, 2), "z", "z").turn == Turn::copy);
}
