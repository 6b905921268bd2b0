#include <doctest/doctest.h>

#include "cli/base/slurm_job.hpp"

using namespace nodestage;

TEST_CASE("squeue's line gives a job's id, user, state and nodes") {
  const auto job = read_job("12", "12|12|N/A|RUNNING|1001|n[1-3]|None\n");
  REQUIRE(job);
  CHECK(job->id == 12);
  CHECK(job->uid == 1001);
  CHECK(job->state == "RUNNING");
  CHECK(job->nodes == "n[1-3]");
  CHECK(time_of(*job) == JobTime::running);
  const auto pending = read_job("12", "12|12|N/A|PENDING|1001||Priority\n");
  CHECK(pending->reason == "Priority");
  CHECK(time_of(*pending) == JobTime::pending);
}

TEST_CASE("squeue: arrays and heterogeneous jobs") {
  CHECK(time_of(*read_job("12", "12|12|0-3|PENDING|1001||Priority\n")) == JobTime::pending);
  CHECK(read_job("12_3", "15|12|3|RUNNING|1001|n1|None\n")->id == 15);
  const std::string tasks = "12|12|4|RUNNING|1001|n1|None\n15|12|3|RUNNING|1001|n1|None\n";
  CHECK(read_job("12", tasks).error().code == EINVAL);
  CHECK(read_job("12", tasks).error().what == "job 12 is an array of 2 tasks, or more");
  const std::string components =
      "13|12+1|N/A|RUNNING|1001|n2|None\n12|12+0|N/A|RUNNING|1001|n1|None\n";
  CHECK(read_job("12", components)->nodes == "n1");
  CHECK(read_job("12+0", components)->nodes == "n1");
  CHECK(read_job("12+1", components)->id == 13);
  CHECK(read_job("12+2", components).error().code == EINVAL);
}

TEST_CASE("squeue: no such job, and what is no answer") {
  CHECK(read_job("12", "").error().code == ENOENT);
  CHECK(read_job("12", "").error().what == "Slurm knows no job 12");
  for (const char* odd : {"hello", "12|12|N/A", "x|12|N/A|RUNNING|1001|n1|None",
                          "12|12|N/A|RUNNING|x|n1|None", "12\x1b|||||"})
    CHECK(read_job("12", odd).error().code == EIO);
}

TEST_CASE("what runs, what waits, what is over") {
  const auto time = [](const char* state, const char* nodes) {
    SlurmJob job;
    job.state = state;
    job.nodes = nodes;
    return time_of(job);
  };
  CHECK(time("CONFIGURING", "n1") == JobTime::running);
  CHECK(time("SUSPENDED", "n1") == JobTime::running);
  CHECK(time("REQUEUE_HOLD", "") == JobTime::pending);
  for (const char* state :
       {"COMPLETING", "STAGE_OUT", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NEW"})
    CHECK(time(state, "n1") == JobTime::over);
  const auto completing = [](const char* state) {
    SlurmJob job;
    job.state = state;
    return is_completing(job);
  };
  CHECK(completing("COMPLETING"));
  CHECK(completing("STAGE_OUT"));
  for (const char* state : {"COMPLETED", "RUNNING", "FAILED", ""}) CHECK_FALSE(completing(state));
}

TEST_CASE("job ids of arrays and heterogeneous jobs are valid, anything else is not") {
  for (const char* good : {"1", "4711", "12_0", "12_34", "12+1"}) CHECK(is_job_id(good));
  for (const char* bad : {"", "0", "x", "-1", "+1", "1.", "1_", "_1", "1_x", "1_2_3", "99999999999",
                          "1;id", " 1", "12_[1-3]"})
    CHECK_FALSE(is_job_id(bad));
}

TEST_CASE("accounting: a job that the controller has forgotten") {
  const auto job = read_accounted_job("12", "12|COMPLETED|1001|n[1-2]\n");
  REQUIRE(job);
  CHECK(job->id == 12);
  CHECK(job->uid == 1001);
  CHECK(job->state == "COMPLETED");
  CHECK(job->nodes == "n[1-2]");
  CHECK(time_of(*job) == JobTime::over);
  const auto cancelled = read_accounted_job("12_3", "15|CANCELLED by 0|1001|None assigned\n");
  REQUIRE(cancelled);
  CHECK(cancelled->state == "CANCELLED");
  CHECK(cancelled->nodes.empty());
  CHECK(read_accounted_job("12", "12|FAILED|1001|n1\n15|FAILED|1001|n1\n").error().code == EINVAL);
  const std::string components = "12|FAILED|1001|n1|12+0\n13|FAILED|1001|n2|12+1\n";
  CHECK(read_accounted_job("12", components)->nodes == "n1");
  CHECK(read_accounted_job("12+1", components)->id == 13);
  for (const char* none : {"", "hello\n", "12|COMPLETED|alice|n1\n", "12|COMPLETED\n"})
    CHECK(read_accounted_job("12", none).error().code == ENOENT);
}

TEST_CASE("scontrol: the output of a batch job") {
  CHECK(read_output("JobId=12\n   Requeue=1 BatchFlag=1\n   StdErr=/e\n   StdOut=/a b\n").path ==
        "/a b");
  CHECK(read_output("JobId=12\n   Requeue=1 BatchFlag=0\n   StdOut=/a\n").path.empty());
  CHECK(read_output("").path.empty());
}

TEST_CASE("scontrol: a later component of a heterogeneous job, whose output is the first one's") {
  const auto component = [](const std::string& number) {
    return "JobId=1" + number + " HetJobId=10 HetJobOffset=" + number +
           " JobName=a\n   Requeue=1 BatchFlag=1\n   StdOut=/o" + number + "\n";
  };
  CHECK(read_output(component("1")).het_job == 10);
  CHECK(read_output(component("0") + component("1")).het_job == k_no_number);
  CHECK(read_output(component("0") + component("1")).path == "/o0");
  CHECK(read_output("JobId=12 JobName=a\n").het_job == k_no_number);
}
