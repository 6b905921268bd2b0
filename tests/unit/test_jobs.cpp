// The daemon's job table after a restart, from a journal that the test has written.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "daemon/root/tasks/job_workers.hpp"
#include "daemon_node.hpp"
#include "job_site.hpp"

using namespace nodestage;

TEST_CASE("after a restart nothing starts before every place that is taken is known") {
  if (skipped_without_root()) return;
  const Sleeper worker;
  DaemonNode node;
  for (std::uint32_t job = 1; job <= 20; ++job) {  // whatever order the disk lists them in
    JobRecord record = node.record(job, JobState::queued);
    record.begun_at = job;
    if (job == 20) {
      record.state = JobState::staging;
      record.worker = worker.mark();
    }
    node.keep(record);
  }
  node.jobs.recover();
  CHECK(node.state_of(20) == "staging");
  for (std::uint32_t job = 1; job < 20; ++job) CHECK(node.state_of(job) == "queued");
}

TEST_CASE("a step did as its worst task, also when the daemon was restarted between two of them") {
  if (skipped_without_root()) return;
  DaemonNode first;
  first.keep(first.record(1, JobState::ready));
  first.jobs.recover();
  first.jobs.exited({1, 0, 256});
  first.jobs.exited({1, 1, 256});
  const auto loaded = first.journal->load();
  DaemonNode second;
  second.record(1, JobState::ready);
  REQUIRE(loaded.records.size() == 1);
  second.keep(loaded.records[0]);
  second.jobs.recover();
  second.jobs.exited({1, 1, 0});
  CHECK(outcome_of(second.journal->load().records.at(0)) == JobOutcome::failure);
}

TEST_CASE(
    "the end of an older run does not end a newer one; that of a run that Slurm does not name "
    "does") {
  if (skipped_without_root()) return;
  for (const std::uint32_t restart : {1U, 2U, 3U, k_no_number}) {
    const bool ends = restart != 1;
    CAPTURE(restart);
    DaemonNode node;
    JobRecord record = node.record(7, JobState::ready);
    record.begin.restart = 2;
    record.directory = "alice.7.0";
    REQUIRE(::mkdir((node.scratch / record.directory).c_str(), 0700) == 0);
    REQUIRE(::chown((node.scratch / record.directory).c_str(), 1000, 1000) == 0);
    node.keep(record);
    node.jobs.recover();
    std::vector<EndOutcome> heard;
    node.jobs.end(End{7, restart, 0, 0},
                  [&](const Message& answer) { heard.push_back(std::get<Ended>(answer).outcome); });
    CHECK((heard == std::vector{EndOutcome::nothing}) == !ends);
    CHECK((node.state_of(7) == "ready") == !ends);
  }
}

TEST_CASE("of a job that is gone a record is left, with what was known before a restart") {
  if (skipped_without_root()) return;
  DaemonNode node;
  JobRecord record = node.record(1, JobState::failed);
  record.times.begun = 1'700'000'000'000;
  record.times.staged = 1'700'000'005'000;
  record.failure = "why";
  record.ended = true;
  node.keep(record);
  record = node.record(2, JobState::ready);
  record.ended = true;
  record.begin.request.clear();
  node.keep(record);
  node.jobs.recover();
  CHECK(node.journal->load().records.empty());
  const auto texts = node.jobs.reports(1, 1000);
  REQUIRE(texts.size() == 1);
  const auto report = decode_report(texts[0]);
  REQUIRE(report);
  CHECK(report->state == "failed");
  CHECK(report->cause == "why");
  CHECK(report->times.begun == 1'700'000'000'000);
  CHECK(report->times.staged == 1'700'000'005'000);
  CHECK(report->times.ended >= report->times.staged);
  CHECK(report->times.gone >= report->times.ended);
  CHECK(node.jobs.reports(1, 1001).empty());
  CHECK(node.jobs.reports(1, 0).size() == 1);
  // It had wanted nothing.
  CHECK(node.jobs.reports(2, 0).empty());
}

TEST_CASE("a job that is here is told of to its user and root, and to nobody else") {
  if (skipped_without_root()) return;
  DaemonNode node;
  node.keep(node.record(1, JobState::ready));
  node.jobs.recover();
  CHECK(node.jobs.reports(1, 1000).size() == 1);
  CHECK(node.jobs.reports(1, 0).size() == 1);
  CHECK(node.jobs.reports(1, 1001).empty());
  CHECK(node.jobs.reports(2, 0).empty());
}

// What a job's record notes of the site at its prolog, and what follows from it at its end.

TEST_CASE("where Slurm can switch the node off, the epilog waits until the results are delivered") {
  JobSite site;
  Begin begin = site.request(k_job);
  begin.slurm_ways |= k_powers_down;
  site.accept(begin);
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_job);
  REQUIRE(site.end(k_job) != 0);
  site.answers.clear();
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  CHECK(site.answers.empty());
  CHECK(site.trees("hold") == 0);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  REQUIRE(site.answers.size() == 1);
  CHECK(as<Ended>(site.answers.back()).outcome == EndOutcome::done);
}

TEST_CASE("a directory that is there at the prolog is the work of another program") {
  JobSite site;
  const Begin begin = site.request(k_job);
  SUBCASE("it is not") {
    site.accept(begin);
    CHECK_FALSE(site.journal.load().records.at(0).directory_was_there);
  }
  SUBCASE("it is, and the next daemon knows") {
    REQUIRE(site.areas.make_directory("alice." + std::to_string(k_job) + ".0", JobSite::user(),
                                      JobSite::group()));
    site.accept(begin);
    CHECK(site.journal.load().records.at(0).directory_was_there);
    site.start_daemon();
    CHECK(site.journal.load().records.at(0).directory_was_there);
  }
}

TEST_CASE("in a pilot, the jobs of other users are refused") {
  JobSite site;
  SUBCASE("who are not named") {
    site.config.staging.users = {"bob"};
    const auto answer = site.jobs->begin(site.request(1));
    CHECK(as<Refused>(answer).reason == RefusalReason::not_permitted);
    CHECK(as<Refused>(answer).what.starts_with("nodestage is not open to alice on n1 yet\n"));
    CHECK(site.state_of(1).empty());
  }
  SUBCASE("but not jobs that only have a directory") {
    site.config.staging.users = {"bob"};
    Begin begin = site.request(1);
    begin.request.clear();
    site.accept(begin);
  }
  SUBCASE("nor those who are") {
    site.config.staging.users = {"bob", "alice"};
    site.config.staging.groups = {5};
    site.accept(site.request(1));
    CHECK(site.workers.order<StageOrder>().only_groups.empty());
  }
  SUBCASE("and the worker decides by groups") {
    site.config.staging.groups = {5, 6};
    site.accept(site.request(1));
    const auto& order = site.workers.order<StageOrder>();
    CHECK(order.only_groups == std::vector<std::uint64_t>{5, 6});
    CHECK(order.refuse_user.starts_with("nodestage is not open to alice on n1 yet\n"));
  }
}

// A run of a job makes way for the next one whose epilog has not come.

namespace {

bool is_accepted(const Message& answer) { return std::holds_alternative<Accepted>(answer); }

}  // namespace

TEST_CASE("a run that could not make way at first does so later, and its results are delivered") {
  JobSite site;
  site.accept(site.request(k_job));
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_job);
  // Something is in the way of what is moved there.
  const std::string held = site.scratch / (".nodestage/hold/" + std::to_string(k_job) + ".0");
  std::filesystem::create_directories(held + "/full");
  CHECK_FALSE(is_accepted(site.jobs->begin(site.request(k_job, 1))));
  CHECK(site.state_of(k_job) == "ready");
  SUBCASE("for the next run") {
    std::filesystem::remove_all(held);
    CHECK(is_accepted(site.jobs->begin(site.request(k_job, 1))));
    CHECK(site.workers.find(WorkerTask::stage_out) != nullptr);
  }
  SUBCASE("with its epilog") { CHECK(site.end(k_job) != 0); }
  CHECK(site.state_of(k_job) == "staging out");
}

TEST_CASE("worker orders: what may wait for a file system has no limit for standing still") {
  Config config;
  config.worker.kill_wait_s = 7;
  config.staging.groups_wait_s = 8;
  for (std::uint64_t number = 0; const auto task = to_enum<WorkerTask>(number); ++number) {
    const Workers::Limits limits = limits_of(*task, config);
    CHECK(limits.idle.count() == 0);
    CHECK(limits.kill == std::chrono::seconds(7));
    CHECK(limits.start == std::chrono::seconds(8));
  }
}
