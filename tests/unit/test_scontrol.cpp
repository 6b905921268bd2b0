#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "common/text/human.hpp"
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
  auto loop = must(Loop::create());
  SlurmQuestion slurm(loop, config);
  std::optional<SlurmAnswer> answer;
  REQUIRE(slurm.ask({12, 0}, [&](SlurmAnswer given) {
    answer = given;
    loop.stop();
  }));
  REQUIRE(loop.run());
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

namespace {

std::string line(const char* id, const char* state, const char* restarts) {
  return std::string("JobId=") + id + " JobName=x UserId=a(1) JobState=" + state +
         " Reason=None Requeue=1 Restarts=" + restarts + " BatchFlag=1\n";
}

}  // namespace

TEST_CASE("only a clear answer of scontrol ends a job") {
  const JobKey run{12, 1};
  CHECK(read_answer(run, "slurm_load_jobs error: Invalid job id specified\n") == SlurmAnswer::gone);
  for (const char* state : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"})
    CHECK(read_answer(run, line("12", state, "1")) == SlurmAnswer::gone);
  for (const char* state : {"RUNNING", "SUSPENDED", "PENDING", "COMPLETING", "CONFIGURING", "X"})
    CHECK(read_answer(run, line("12", state, "1")) == SlurmAnswer::here);
  CHECK(read_answer(run, "") == SlurmAnswer::none);
  CHECK(read_answer(run, "slurm_load_jobs error: Unable to contact slurm controller\n") ==
        SlurmAnswer::none);
  CHECK(read_answer(run, "JobId=12 JobName=x\n") == SlurmAnswer::unclear);
}

TEST_CASE("another run, another task of the array") {
  const JobKey run{12, 1};
  CHECK(read_answer(run, line("12", "RUNNING", "2")) == SlurmAnswer::gone);
  CHECK(read_answer(run, line("12", "PENDING", "2")) == SlurmAnswer::gone);
  CHECK(read_answer(run, line("12", "COMPLETING", "2")) == SlurmAnswer::here);
  CHECK(read_answer(run, line("123", "COMPLETED", "1")) == SlurmAnswer::unclear);
  CHECK(read_answer(run, line("13", "COMPLETED", "1") + line("12", "RUNNING", "1")) ==
        SlurmAnswer::here);
  CHECK(read_answer(run, "JobId=13 JobName=Invalid job id specified\n") == SlurmAnswer::unclear);
}

TEST_CASE("scontrol: whether a batch script may still write") {
  for (const char* state : {"COMPLETED", "CANCELLED", "TIMEOUT", "COMPLETING"})
    CHECK(batch_script_of(12, line("12", state, "0")) == BatchScript::over);
  for (const char* state : {"RUNNING", "SUSPENDED", "X"})
    CHECK(batch_script_of(12, line("12", state, "0")) == BatchScript::runs);
  CHECK(batch_script_of(12, "JobId=12 JobState=RUNNING BatchFlag=0 x\n") == BatchScript::none);
  CHECK(batch_script_of(13, line("12", "COMPLETED", "0")) == BatchScript::unknown);
  CHECK(batch_script_of(12, "") == BatchScript::unknown);
  CHECK(batch_script_of(12, "slurm_load_jobs error: Invalid job id specified\n") ==
        BatchScript::over);
  CHECK(batch_script_of(12, "JobId=13 JobName=Invalid job id specified\n") == BatchScript::unknown);
}

TEST_CASE("scontrol: the name of a job") {
  CHECK(name_of_job(12, "JobId=12 HetJobId=12 HetJobOffset=0 JobName=a b UserId=c(1) x\n") ==
        "a b");
  CHECK(name_of_job(12, "JobId=12 JobName= UserId=c(1)\n").empty());
  CHECK(name_of_job(12, "JobId=12 UserId=c(1)\n").empty());
  CHECK(name_of_job(12, "JobId=12 JobName=a\n").empty());
  CHECK(name_of_job(12, "JobId=12 JobName=" + std::string(300, 'a') + " UserId=c(1)\n").empty());
  CHECK(name_of_job(12, "slurm_load_jobs error: Invalid job id specified\n").empty());
}

TEST_CASE("a slurmstepd's command line gives its job") {
  CHECK(job_of_step("slurmstepd: [12.batch]") == 12U);
  CHECK(job_of_step("slurmstepd: [12.0]") == 12U);
  CHECK_FALSE(job_of_step("slurmstepd: [12]"));
  CHECK_FALSE(job_of_step("slurmstepd spank prolog"));
  CHECK_FALSE(job_of_step("slurmstepd: [x.batch]"));
}

TEST_CASE("a job's memory on a node is what scontrol says of the node or of each CPU") {
  const auto memory = [](const std::string& fields) {
    return memory_of_job(5, 4, "JobId=5 JobName=x " + fields + " MinTmpDiskNode=0\n");
  };
  CHECK(memory("MinCPUsNode=1 MinMemoryNode=200M") == 200 * k_mebibyte);
  CHECK(memory("MinCPUsNode=1 MinMemoryNode=1.50G") == 1536 * k_mebibyte);
  CHECK(memory("MinCPUsNode=1 MinMemoryNode=2T") == 2 * k_mebibyte * k_mebibyte);
  CHECK(memory("MinCPUsNode=1 MinMemoryNode=512K") == k_mebibyte / 2);
  CHECK(memory("MinCPUsNode=1 MinMemoryNode=300") == 300 * k_mebibyte);
  CHECK(memory("MinCPUsNode=1 MinMemoryCPU=100M") == 400 * k_mebibyte);
  for (const char* unknown : {"MinMemoryNode=0", "MinMemoryCPU=0", "", "MinMemoryNode=-1M",
                              "MinMemoryNode=1e300G", "MinMemoryNode=lots"})
    CHECK_MESSAGE(memory(unknown) == 0, unknown);
  CHECK(memory_of_job(6, 4, "JobId=5 JobName=x MinMemoryNode=200M\n") == 0);
  CHECK(memory_of_job(5, 4, "slurm_load_jobs error: Invalid job id specified\n") == 0);
}
