#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>

#include "daemon/worker/write/entry_maker.hpp"
#include "daemon/worker/write/tree_writer.hpp"
#include "limited.hpp"
#include "piece_run.hpp"
#include "stage_run.hpp"

using namespace nodestage;

namespace {

// Everything that can be seen of a tree, a line each.
std::string written_listing(const std::string& directory, const std::string& into) {
  return "cd " + directory + " && find . -printf '%P %y %m %T@ %s %b %l %n\\n' | sort > " + into +
         " && find . -type f -exec md5sum {} + | sort >> " + into +
         " && find . -type f -links +1 -printf '%i %P\\n' | sort -n | awk '{if($1!=i){i=$1;n=$2}; "
         "print n, $2}'"
         " | sort >> " +
         into;
}

struct CachedDirectories {
  const Scratch scratch;
  const Fd root{::open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  DirectoryCache directories{root.get()};
};

}  // namespace

TEST_CASE("a tar becomes what GNU tar makes of it") {
  for (const std::string format : {"pax", "gnu"}) {
    for (const std::string umask : {"022", "077", "002"}) {
      CAPTURE(format);
      CAPTURE(umask);
      StageRun stage(
          "mkdir -p s/ro/in s/sticky s/gid && cd s && echo a > ro/in/f && echo b > suid && "
          "chmod 6755 suid && chmod 1777 sticky && chmod 2775 gid && ln suid hard && ln "
          "hard ro/in/h2 && "
          "ln -s ../nowhere ro/dangling && truncate -s 20M sparse && "
          "echo e >> sparse && "
          "touch -hd '2001-02-03 04:05:06.789' ro/dangling && touch -d '1969-12-31 "
          "23:00:00' suid && "
          "touch -d '2033-01-01 00:00:00.25' ro/in ro && mkdir -p implicit/a/b && echo i > "
          "implicit/a/b/c && "
          "chmod 444 ro/in/f && echo 1 > twice && chmod 555 ro ro/in && cd .. && "
          "tar --warning=no-timestamp --format=" +
          format +
          " -Scf x.tar --exclude s/implicit s && echo 22 > s/twice && "
          "tar --format=" +
          format + " -Srf x.tar s/twice s/implicit/a/b/c");
      stage.prepare("umask " + umask +
                    "; mkdir ref && tar --warning=no-timestamp -xf x.tar -C ref");
      stage.add("x.tar").destination = "got";
      stage.request.umask = static_cast<unsigned>(std::stoi(umask, nullptr, 8));
      REQUIRE(stage.run() == 0);
      // Times of directories that the archive does not hold are "now".
      const std::string drop =
          " && sed -i -E '/^(s\\/implicit(\\/a|\\/a\\/b)?)? d /s/[0-9]+\\.[0-9]+/T/' ";
      stage.prepare(written_listing(stage.data() + "/ref", stage.data() + "/1") + drop +
                    stage.data() + "/1");
      stage.prepare(written_listing(stage.job() + "/got", stage.data() + "/2") + drop +
                    stage.data() + "/2");
      CHECK(stage.in_data("diff 1 2") == 0);
    }
  }
}

TEST_CASE("a name that comes again: the later one wins") {
  PieceRun run(
      "mkdir 1 2 && echo old > 1/f && mkdir 1/d && ln -s f 1/l && echo x > 1/g && "
      "echo new > 2/f && echo file > 2/d && mkdir 2/g 2/l && echo in > 2/l/in && "
      "tar cf x.tar -C 1 f d l g -C ../2 f d l g");
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.shell("diff -r 2 " + run.out()) == 0);
}

TEST_CASE("evil entries are refused, and touch nothing outside") {
  PieceRun run(
      "mkdir sub out; echo x > secret; echo evil > f; cd sub; "
      "tar -cPf ../dots.tar ../f; tar -cPf ../deep.tar --transform 's,^,a/../../,' ../f; "
      "ln -s .. up; ln -s ../out to; tar -cf ../link.tar up; tar -rf ../link.tar --transform "
      "'s,.*,up/written,' -P ../f; echo a > a; ln a b; "
      "tar -cPf ../hard.tar --transform 'flags=h;s,^a$,../secret,' a b");
  for (const std::string name : {"dots.tar", "deep.tar", "link.tar", "hard.tar"}) {
    const std::string fault = run.build(name);
    INFO(name << ": " << fault);
    CHECK(fault.starts_with(run.scratch / name));
    CHECK(has(fault, "\n"));
    CHECK(run.shell("test ! -e written -a ! -e out/written -a \"$(cat secret)\" = x") == 0);
  }
}

TEST_CASE("absolute names land below the destination") {
  PieceRun run;
  REQUIRE(run.shell(
              "mkdir -p sub; echo x > sub/f; tar -cPf x.tar $PWD/sub/f; tar -rf x.tar ./sub/./f") ==
          0);
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.shell("cmp sub/f " + run.out() + "$PWD/sub/f && cmp sub/f " + run.out("sub/f")) == 0);
}

TEST_CASE("a hard link whose file was left out is told") {
  PieceRun run("mkdir a; echo x > a/one; ln a/one a/two; tar cf x.tar a/one a/two");
  run.item.exclude = {"a/one"};
  CHECK(has(run.build("x.tar"), "entry 'a/two': is a hard link to 'a/one'"));
  run.prepare("ln a/one top; tar cf y.tar top a/one");
  run.item = {};
  run.item.strip = 1;
  CHECK(has(run.build("y.tar"), "entry 'a/one': is a hard link to 'top', which strip= leaves out"));
}

TEST_CASE("a hard link to itself: nothing new, or a fault when there is no such file") {
  PieceRun run(
      "echo x > f; ln f g; tar cf good.tar f f; "
      "tar cf bad.tar --transform 'flags=h;s,^f$,g,' f g; "
      "tar --delete -f bad.tar f");
  CHECK(run.build("good.tar") == "");
  CHECK(file_text(run.out("f")) == "x\n");
  CHECK(has(run.build("bad.tar"), "entry 'g': is a hard link to itself, and nothing"));
}

TEST_CASE("names longer than a path may be") {
  PieceRun run(
      "d=$(printf 'd%.0s' $(seq 200)); mkdir top; (cd top; for i in $(seq 40); do "
      "mkdir $d; cd -P $d; done; "
      "echo deep > f); tar cf x.tar top");
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.shell("tar cf z.tar -C " + run.out() +
                  " top && tar tf z.tar | tail -1 | wc -c > size") == 0);
  CHECK(std::stoi(file_text(run.scratch / "size")) > 8000);
  CHECK(run.build("top") == "");
  CHECK(run.shell("rm -rf top out1 out2") == 0);
}

TEST_CASE_FIXTURE(CachedDirectories,
                  "where no more files may be open, those that are kept are closed") {
  int failed = 0;
  {
    const Limited limited(RLIMIT_NOFILE, static_cast<rlim_t>(root.get()) + 12);
    for (int i = 0; i < 60; ++i) {
      if (!directories.open("a/b" + std::to_string(i))) ++failed;
    }
    directories.forget();
  }
  CHECK(failed == 0);
  for (int i = 0; i < 60; ++i)
    CHECK(std::filesystem::is_directory(scratch / ("a/b" + std::to_string(i))));
}

TEST_CASE_FIXTURE(CachedDirectories, "the directories on the way are kept open, too") {
  REQUIRE(directories.open("a/b/c"));
  std::filesystem::rename(scratch / "a", scratch / "moved");
  REQUIRE(directories.open("a/b/d/e"));
  CHECK(std::filesystem::is_directory(scratch / "moved/b/d/e"));
  CHECK_FALSE(std::filesystem::exists(scratch / "a"));
  directories.forget();
  REQUIRE(directories.open("a/b"));
  CHECK(std::filesystem::is_directory(scratch / "a/b"));
}

TEST_CASE_FIXTURE(CachedDirectories,
                  "what is on the way and no directory is told, and nothing is made beside it") {
  std::filesystem::create_directory(scratch / "real");
  std::filesystem::create_directory_symlink("real", scratch / "link");
  write_file(scratch / "file", "x");
  CHECK(directories.open("link/a").error().code == ELOOP);
  CHECK(directories.open("link").error().code == ELOOP);
  CHECK(directories.open("file/a").error().code == ENOTDIR);
  CHECK(std::filesystem::is_empty(scratch / "real"));
}
