// Attack: a stage-out's source is made, by a job that was sent by somebody else or by an unpacked
// archive, to name something outside of the job directory.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/scratch.hpp"
#include "../unit/texts.hpp"
#include "common/os/file.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/job_tree.hpp"

using namespace nodestage;

TEST_CASE("no link leads a stage-out's source out of the job directory") {
  const Scratch scratch;
  const std::string job = scratch / "job";
  REQUIRE(::mkdir(job.c_str(), 0700) == 0);
  REQUIRE(::mkdir((scratch / "secret").c_str(), 0700) == 0);
  REQUIRE(::mknod((scratch / "secret/key").c_str(), S_IFREG | 0600, 0) == 0);
  REQUIRE(::symlink("../secret", (job + "/relative").c_str()) == 0);
  REQUIRE(::symlink((scratch / "secret").c_str(), (job + "/absolute").c_str()) == 0);
  REQUIRE(::symlink("/proc/self/root/etc", (job + "/magic").c_str()) == 0);
  REQUIRE(::mkdir((job + "/inner").c_str(), 0700) == 0);
  REQUIRE(::symlink("inner", (job + "/staying").c_str()) == 0);
  const Fd directory(::open(job.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const JobTree tree(directory.get(), job);

  for (const char* source :
       {"relative", "absolute", "magic", "relative/key", "absolute/key", "magic/passwd"}) {
    CAPTURE(source);
    CHECK(has(must_fail(find_output_source(tree, source)).text(), "out of the job directory"));
  }
  // A glob names the links themselves, and nothing behind them.
  CHECK(must(find_output_source(tree, "*/k*")).kind == OutputSource::Kind::missing);
  CHECK(must(find_output_source(tree, "staying")).kind == OutputSource::Kind::directory);
}

TEST_CASE("nothing above the job directory is opened") {
  const Scratch scratch;
  REQUIRE(::mkdir((scratch / "job").c_str(), 0700) == 0);
  const Fd directory(::open((scratch / "job").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* path : {"..", "../job", "/etc", "a/../..", "/"})
    CHECK_MESSAGE(!open_beneath(directory.get(), path, O_PATH), path);
}
