#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "daemon/root/slurm/scontrol.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A configuration whose scontrol is this script.
Config with_scontrol(const Scratch& scratch, const std::string& script) {
  const std::string path = scratch / "scontrol";
  std::ofstream(path) << "#!/bin/sh\n" << script;
  ::chmod(path.c_str(), 0755);
  Config config;
  config.slurm.scontrol = path;
  return config;
}

SlurmAnswer ask(const Config& config) {
  auto loop = Loop::create();
  REQUIRE(loop);
  SlurmQuestion slurm(*loop, config);
  std::optional<SlurmAnswer> answer;
  REQUIRE(slurm.ask({12, 0}, [&](SlurmAnswer given) {
    answer = given;
    loop->stop();
  }));
  REQUIRE(loop->run());
  CHECK_FALSE(slurm.busy());
  REQUIRE(answer);
  return *answer;
}

}  // namespace

TEST_CASE("the first id of a large array: its line is found among those of all tasks") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  CHECK(ask(with_scontrol(scratch,
                          "pad=$(printf '%01000d' 0)\n"
                          "i=100; while [ $i -lt 1100 ]; do\n"
                          "echo \"JobId=$i JobState=RUNNING Restarts=0 $pad\"; i=$((i+1)); done\n"
                          "echo 'JobId=12 JobState=COMPLETED Restarts=0 x'\n")) ==
        SlurmAnswer::gone);
}

TEST_CASE("an answer without an end is not taken, and says nothing of the controller") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  CHECK(ask(with_scontrol(scratch, "head -c 6000000 /dev/zero | tr '\\0' 'x'\n")) ==
        SlurmAnswer::unclear);
}

TEST_CASE("a newline in a job's name makes the answer about that job unclear, and no other's") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  CHECK(ask(with_scontrol(scratch,
                          "printf 'JobId=12 JobName=x\\nJobId=13 JobState=COMPLETED Restarts=9 "
                          "y\\n'\n")) == SlurmAnswer::unclear);
  CHECK(ask(with_scontrol(scratch, "echo 'Unable to contact slurm controller' >&2; exit 1\n")) ==
        SlurmAnswer::none);
}
