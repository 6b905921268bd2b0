#include <doctest/doctest.h>

#include "daemon/root/slurm/slurm_question.hpp"
#include "daemon/root/slurm/slurm_steps.hpp"

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

TEST_CASE("the job of a slurmstepd") {
  CHECK(job_of_step("slurmstepd: [12.batch]") == 12U);
  CHECK(job_of_step("slurmstepd: [12.0]") == 12U);
  CHECK_FALSE(job_of_step("slurmstepd: [12]"));
  CHECK_FALSE(job_of_step("slurmstepd spank prolog"));
  CHECK_FALSE(job_of_step("slurmstepd: [x.batch]"));
}
