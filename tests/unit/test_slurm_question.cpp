#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "daemon/root/slurm/scontrol.hpp"

using namespace nodestage;

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
                              "MinMemoryNode=1e300G", "MinMemoryNode=lots"}) {
    CAPTURE(unknown);
    CHECK(memory(unknown) == 0);
  }
  CHECK(memory_of_job(6, 4, "JobId=5 JobName=x MinMemoryNode=200M\n") == 0);
  CHECK(memory_of_job(5, 4, "slurm_load_jobs error: Invalid job id specified\n") == 0);
}
