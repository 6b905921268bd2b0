#include <doctest/doctest.h>

#include "daemon/root/slurm/credit.hpp"

using namespace nodestage;

namespace {

using LimitAnswer = JobLimit::Answer;

std::string job_line(const std::string& ids, const std::string& name,
                     const std::string& state = "RUNNING", const std::string& limit = "00:10:00",
                     const std::string& partition = "debug") {
  return "JobId=" + ids + " JobName=" + name + " UserId=a(1) JobState=" + state +
         " Reason=None Requeue=1 Restarts=1 BatchFlag=1 RunTime=00:00:04 TimeLimit=" + limit +
         " TimeMin=N/A Partition=" + partition + " Comment=x \n";
}

}  // namespace

TEST_CASE("times as Slurm prints them") {
  CHECK(parse_minutes("UNLIMITED") == k_unlimited);
  CHECK(parse_minutes("1-02:03:04") == 1563U);
  CHECK(parse_minutes("1-02") == 1560U);
  CHECK(parse_minutes("02:03:04") == 123U);
  CHECK(parse_minutes("03:04") == 3U);
  CHECK(parse_minutes("3") == 3U);
  for (const char* text : {"", "Partition_Limit", "N/A", "NONE", "1:2:3:4", "-1", "1-", ":", "1:",
                           "1-1:1:1:1", "4294967295", "4294967295-00:00:00", "1 2", "99999999999"})
    CHECK_FALSE(parse_minutes(text));
}

TEST_CASE("minutes of staging: rounded up, from `least` on, at most `max`") {
  const Config::Credit settings{true, 60, 120};
  CHECK(credit_minutes(0, settings) == 0);
  CHECK(credit_minutes(119, settings) == 0);
  CHECK(credit_minutes(120, settings) == 2);
  CHECK(credit_minutes(121, settings) == 3);
  CHECK(credit_minutes(3600, settings) == 60);
  CHECK(credit_minutes(1ULL << 60, settings) == 60);
}

TEST_CASE("never past the partition's MaxTime") {
  CHECK(raised_limit(10, 5, k_unlimited) == 15U);
  CHECK(raised_limit(10, 5, 12) == 12U);
  CHECK_FALSE(raised_limit(10, 5, 10));
  CHECK_FALSE(raised_limit(10, 5, 8));
  CHECK_FALSE(raised_limit(k_unlimited - 2, 5, k_unlimited));
  const std::string line =
      "PartitionName=p AllowGroups=ALL MaxNodes=UNLIMITED MaxTime=01:00:00 X=1";
  CHECK(read_max_time("p", line + "\n") == 60U);
  CHECK_FALSE(read_max_time("q", line));
  CHECK_FALSE(read_max_time("p", "slurm_load_partitions error: Unable to contact\n"));
  CHECK_FALSE(read_max_time("p", ""));
}

TEST_CASE("a running job's time limit is read from scontrol's line") {
  const JobKey run{12, 1};
  const JobLimit limit = read_job_limit(run, job_line("12", "x"));
  CHECK(limit.answer == LimitAnswer::known);
  CHECK(limit.id == "12");
  CHECK(limit.minutes == 10);
  CHECK(limit.partition == "debug");
  CHECK(read_job_limit(run, job_line("12", "x", "CONFIGURING")).answer == LimitAnswer::later);
  CHECK(read_job_limit(run, job_line("12", "x", "SUSPENDED")).answer == LimitAnswer::later);
  CHECK(read_job_limit(run, "").answer == LimitAnswer::later);
  CHECK(read_job_limit(run, "slurm_load_jobs error: Unable to contact\n").answer ==
        LimitAnswer::later);
  for (const char* state : {"COMPLETING", "CANCELLED", "PENDING"})
    CHECK(read_job_limit(run, job_line("12", "x", state)).answer == LimitAnswer::never);
  for (const char* text : {"UNLIMITED", "Partition_Limit", ""})
    CHECK(read_job_limit(run, job_line("12", "x", "RUNNING", text)).answer == LimitAnswer::never);
  CHECK(read_job_limit(run, job_line("12", "x", "RUNNING", "00:10:00", "a,b")).answer ==
        LimitAnswer::never);
  CHECK(read_job_limit({12, 2}, job_line("12", "x")).answer == LimitAnswer::never);
  CHECK(read_job_limit(run, "slurm_load_jobs error: Invalid job id specified\n").answer ==
        LimitAnswer::never);
  CHECK(read_job_limit(run, job_line("12 HetJobId=12 HetJobOffset=0", "x")).answer ==
        LimitAnswer::never);
}

TEST_CASE("a task of an array, by the id that means it alone") {
  const JobKey run{12, 1};
  const std::string own = job_line("12 ArrayJobId=12 ArrayTaskId=3", "x");
  CHECK(read_job_limit(run, own).id == "12_3");
  CHECK(read_job_limit(run, own).answer == LimitAnswer::known);
  const JobLimit several =
      read_job_limit(run, job_line("13 ArrayJobId=12 ArrayTaskId=1", "x") + own);
  CHECK(several.answer == LimitAnswer::ask_for);
  CHECK(several.id == "12_3");
}

TEST_CASE("a user cannot forge what Slurm says") {
  const JobKey run{12, 1};
  for (const char* field :
       {"TimeLimit=5-00:00:00", "Partition=long", "JobState=RUNNING", "Restarts=1"}) {
    CHECK(read_job_limit(run, job_line("12", std::string("x ") + field)).answer ==
          LimitAnswer::never);
  }
  CHECK(read_job_limit(run, job_line("12", "x ArrayJobId=99 ArrayTaskId=1")).id == "12");
  const std::string fake = "x UserId=a JobState=RUNNING Restarts=1 TimeLimit=9-0 Partition=long";
  CHECK(read_job_limit(run, job_line("12", fake + "\nrest")).answer != LimitAnswer::known);
  CHECK(read_job_limit(run, job_line("12", fake + "\nJobId=13 JobName=x")).answer !=
        LimitAnswer::known);
  CHECK(read_job_limit(run, job_line("12", "x\nJobId=12 JobName=" + fake)).answer ==
        LimitAnswer::never);
}
