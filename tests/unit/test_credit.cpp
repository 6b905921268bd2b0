#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "daemon/root/jobs/credits.hpp"
#include "daemon/root/slurm/credit.hpp"
#include "job_site.hpp"
#include "scratch.hpp"
#include "texts.hpp"

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
  for (const std::string& output :
       {job_line("12", "x", "CONFIGURING"), job_line("12", "x", "SUSPENDED"), std::string(),
        std::string("slurm_load_jobs error: Unable to contact\n")})
    CHECK_MESSAGE(read_job_limit(run, output).answer == LimitAnswer::later, output);
  for (const std::string& output :
       {job_line("12", "x", "COMPLETING"), job_line("12", "x", "CANCELLED"),
        job_line("12", "x", "PENDING"), job_line("12", "x", "RUNNING", "UNLIMITED"),
        job_line("12", "x", "RUNNING", "Partition_Limit"), job_line("12", "x", "RUNNING", ""),
        job_line("12", "x", "RUNNING", "00:10:00", "a,b"),
        std::string("slurm_load_jobs error: Invalid job id specified\n"),
        job_line("12 HetJobId=12 HetJobOffset=0", "x")})
    CHECK_MESSAGE(read_job_limit(run, output).answer == LimitAnswer::never, output);
  CHECK(read_job_limit({12, 2}, job_line("12", "x")).answer == LimitAnswer::never);
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

// Which time of a job's staging is added to its limit.

TEST_CASE("time in which an environment is made, which can run its user's programs, is not added") {
  for (const bool is_environment : {false, true}) {
    CAPTURE(is_environment);
    JobSite site;
    site.config.credit.enabled = true;
    site.jobs->begin(site.request(k_job));
    ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::working),
                    .flags = is_environment ? k_item_venv : 0,
                    .begun_ms = site.loop.wall_ms()};
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::working, {item}));
    site.pass(std::chrono::minutes(30));
    item.state = static_cast<std::uint32_t>(ItemState::done);
    item.ended_ms = site.loop.wall_ms();
    site.workers.finish(WorkerTask::stage, k_job, WorkerPhase::done, {item});
    CHECK((site.journal.load().records.at(0).credit_minutes == 0) == is_environment);
  }
}

TEST_CASE("time in which a step looked at a job is not added to its limit, whoever saw it begin") {
  for (const bool looks : {false, true}) {
    for (const bool restarts : {false, true}) {
      CAPTURE(looks);
      CAPTURE(restarts);
      JobSite site;
      site.config.credit.enabled = true;
      site.jobs->begin(site.request(k_job));
      Wait look{.job = k_job, .step = 1, .goes_on = k_looks};
      if (looks) site.jobs->wait(look, site.reply);
      site.pass(std::chrono::minutes(30));
      CHECK(site.journal.load().records.at(0).is_looked_at == looks);
      if (restarts) site.start_daemon();
      look.goes_on = k_looked;
      if (looks) site.jobs->wait(look, site.reply);
      site.workers.finish(WorkerTask::stage, WorkerPhase::done);
      CHECK((site.journal.load().records.at(0).credit_minutes == 0) == looks);
    }
  }
}

namespace {

// 1 of 10 GiB after so many seconds.
Progress after(std::uint64_t seconds) {
  return {.phase = ProgressPhase::staging,
          .bytes_read = 1ULL << 30,
          .bytes_total = 10ULL << 30,
          .elapsed_ms = 1000 * seconds};
}

}  // namespace

TEST_CASE("how long a staging will take is known once it has run for a moment") {
  CHECK(seconds_left(after(10)) == 90U);
  CHECK(seconds_left(after(400)) == 3600U);
  CHECK_FALSE(seconds_left(after(4)));  // too early
  CHECK(seconds_left(after(6)) == 54U);
  Progress progress = after(100);
  progress.bytes_total = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.bytes_read = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.phase = ProgressPhase::others;
  CHECK_FALSE(seconds_left(progress));
}

TEST_CASE(
    "the note on the limit stays until it has passed, and then nothing is promised any more") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  Config config;
  config.slurm.scontrol = scratch / "scontrol";
  std::ofstream(config.slurm.scontrol)
      << "#!/bin/sh\necho 'JobId=1 JobName=x JobState=RUNNING Restarts=0 TimeLimit=00:02:00 "
         "Partition=p'\n";
  ::chmod(config.slurm.scontrol.c_str(), 0755);
  Loop loop = std::move(*Loop::create());
  Journal journal = std::move(*Journal::open(scratch / "state"));
  Counters counters;
  JobTable table(loop, journal, counters);
  JobRecord added{.begin = {.job = 1}, .begun_at = loop.wall_s()};
  const auto record = must(table.add(added));
  TimeLimits limits(loop, config, table);
  // With 1 of 10 GiB after 30 s, 270 s are left; Slurm answers some moment later.
  Progress progress = after(30);
  std::string note;
  for (int looks = 0; looks < 1000 && note.empty(); ++looks) {
    note = limits.note(*record, progress);
    loop.after(std::chrono::milliseconds(10), [&loop] { loop.stop(); });
    REQUIRE(loop.run());
  }
  CHECK(note.starts_with("the job's time limit ends before that, in "));
  loop.advance(std::chrono::seconds(100));
  progress.bytes_read = 9ULL << 30;
  progress.elapsed_ms = 270'000;  // 30 s are left, and the limit ends before
  CHECK(limits.note(*record, progress).starts_with("the job's time limit ends before that, in "));
  CHECK(progress.bytes_total != 0);
  loop.advance(std::chrono::seconds(60));
  CHECK(limits.note(*record, progress) == "the job's time limit has passed");
  CHECK(progress.bytes_total == 0);
}
