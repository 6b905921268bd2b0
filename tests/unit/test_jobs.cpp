// The daemon's job table after a restart, from a journal that the test has written.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "daemon_node.hpp"

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
