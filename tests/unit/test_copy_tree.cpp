#include <doctest/doctest.h>

#include "daemon/worker/copy_tree.hpp"
#include "piece_run.hpp"
#include "stage_run.hpp"

using namespace nodestage;

TEST_CASE("a directory becomes what cp -a makes of it") {
  StageRun stage;
  REQUIRE(stage.in_data(
              "mkdir -p s/ro/in s/gid s/empty && cd s && echo a > ro/in/f && echo b > plain && "
              "chmod 751 plain && "
              "ln plain ro/in/h && ln -s /nowhere l && touch -hd '2001-02-03 04:05:06.789' l && "
              "touch -d '1999-01-01 00:00:00.123456789' plain && truncate -s 30M sparse && "
              "echo middle | dd of=sparse bs=1M seek=10 conv=notrunc status=none && "
              "head -c 3000000 /dev/urandom > big && chmod 2770 gid && chmod 4755 plain && "
              "touch -d '2010-01-01' ro/in ro && chmod 555 ro/in ro && cd .. && cp -a s ref && "
              "chmod u-s ref/plain") == 0);
  stage.add("s").destination = "x/y";
  stage.request.umask = 077;
  REQUIRE(stage.run() == 0);
  const std::string list = " -printf '%P %y %m %T@ %s %b %l %n\\n' | sort > ";
  REQUIRE(stage.in_data("find ref" + list + "1; find ../job/x/y" + list + "2; diff 1 2") == 0);
  CHECK(stage.in_data("diff -r --no-dereference ref ../job/x/y") == 0);
  CHECK(stage.in_data("test $(stat -c %a ../job/x) = 700") == 0);
}

TEST_CASE("what cannot be copied is left out and counted") {
  PieceRun run;
  REQUIRE(run.shell("mkdir s; mkfifo s/fifo; echo x > s/f; mkfifo s/g") == 0);
  CHECK(run.build(run.scratch / "s") == "");
  CHECK(run.note == "2 FIFOs, sockets or devices left out");
  CHECK(run.shell("test \"$(ls " + run.out() + ")\" = f") == 0);
}

TEST_CASE("a file that cannot be read is a fault that names it") {
  StageRun stage;
  REQUIRE(stage.in_data("mkdir -p s/a; echo x > s/a/secret; chmod 0 s/a/secret") == 0);
  stage.add("s");
  CHECK(stage.run() == 1);
  CHECK(stage.status.cause.find(stage.data() + "/s/a/secret: cannot be read: Permission denied") !=
        std::string::npos);
  CHECK(stage.in_job("test -z \"$(ls -A)\""));
}

TEST_CASE("a tree of 1100 levels") {
  PieceRun run;
  REQUIRE(run.shell("mkdir s; cd s; for i in $(seq 1100); do mkdir d; cd -P d; done; echo x > f") ==
          0);
  CHECK(run.build(run.scratch / "s") == "");
  CHECK(run.shell("find " + run.out() + " -name f | wc -l | grep -qx 1") == 0);
  CHECK(run.shell("rm -rf s out1") == 0);
}
