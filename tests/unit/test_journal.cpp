#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/root/table/journal.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

JobRecord full_record() {
  JobRecord record;
  record.begin = {12,
                  1,
                  1000,
                  1000,
                  "alice",
                  "n1",
                  2,
                  0,
                  "n1",
                  {"n1", "n2"},
                  1,
                  8,
                  "/home/alice",
                  "slurm-%j.out",
                  std::string("\0{bytes\xff", 9)};
  record.stage_outs = 2;
  record.hold = {1'700'000'000, 1'700'000'060, 1ULL << 40, 77, true, true, 0,
                 1ULL << 63,    {"why"},       true};
  record.state = JobState::staging;
  record.directory = "alice.12.0";
  record.may_have_run = true;
  record.cause = record.failure = "why";
  record.times = {1'700'000'000'123, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  record.worker = {4321, 987654321};
  record.last_status = 256;
  record.last_step = 3;
  record.facts.known = true;
  record.facts.array_job = 10;
  record.facts.job_name = "name";
  record.begin.het_job = 11;
  record.verdict = Verdict::failed;
  record.first_status = 15;
  record.begun_at = 1'700'000'000;
  record.credit_minutes = 7;
  record.credited = true;
  return record;
}

struct Saved {
  Saved() {
    REQUIRE(journal);
    REQUIRE(journal->save_request(record));
    REQUIRE(journal->save(record));
  }
  const Scratch scratch;
  const Result<Journal> journal = Journal::open(scratch / "state");
  const JobRecord record = full_record();
};

}  // namespace

TEST_CASE("a record there and back, through the disk") {
  const Saved saved;
  const auto loaded = saved.journal->load();
  CHECK(loaded.faults.empty());
  REQUIRE(loaded.records.size() == 1);
  CHECK(encode_record(loaded.records[0]) == encode_record(saved.record));
  CHECK(loaded.records[0].begin.request == saved.record.begin.request);
  CHECK_FALSE(loaded.records[0].batch_status);
  CHECK(loaded.records[0].last_status == 256);
  CHECK(loaded.records[0].times == saved.record.times);
  saved.journal->forget(saved.record.key());
  CHECK(saved.journal->load().records.empty());
}

TEST_CASE("names and paths of any bytes are the same after a restart") {
  JobRecord record = full_record();
  const std::string bytes = "r\xe9sultats-\xc3\xa9-\xff\x80";
  record.facts.job_name = record.begin.work_dir = record.begin.stdout_path = bytes;
  const auto decoded = must(decode_record(encode_record(record)));
  CHECK(decoded.facts.job_name == bytes);
  CHECK(decoded.begin.work_dir == bytes);
  CHECK(decoded.begin.stdout_path == bytes);
}

TEST_CASE("an entry of an earlier release lacks fields: the job is carried on all the same") {
  const auto decoded = decode_record(
      R"({"version": 1, "job": 12, "restart": 1, "uid": 1000, "gid": 1000, "state": 7,
          "directory": "alice.12.0", "may_have_run": true})");
  REQUIRE(decoded);
  CHECK(decoded->state == JobState::staging_out);
  CHECK(decoded->may_have_run);
  CHECK(decoded->hold.since == 0);
  CHECK_FALSE(decode_record(R"({"version": 1, "job": 12, "restart": 1, "uid": 1000})"));
}

TEST_CASE("a broken entry is named and left in place") {
  const Scratch scratch;
  const auto journal = must(Journal::open(scratch / "state"));
  std::ofstream(scratch / "state/jobs/1.0.json") << "{\"version\":1}";
  std::ofstream(scratch / "state/jobs/.2.0.json.new") << "half";
  const auto loaded = journal.load();
  CHECK(loaded.records.empty());
  REQUIRE(loaded.faults.size() == 1);
  CHECK(loaded.faults[0].find("1.0.json") == 0);
  CHECK(std::filesystem::exists(scratch / "state/jobs/1.0.json"));
}

TEST_CASE(
    "success is the batch script's, else the last step's, and never an epilog that knows better") {
  JobRecord record;
  CHECK(outcome_of(record) == JobOutcome::unknown);
  record.last_status = 0;
  CHECK(outcome_of(record) == JobOutcome::success);
  record.last_status = 256;
  CHECK(outcome_of(record) == JobOutcome::failure);
  record.batch_status = 0;
  CHECK(outcome_of(record) == JobOutcome::success);
  record.batch_status = 15;  // a signal
  CHECK(outcome_of(record) == JobOutcome::failure);
  record.batch_status = 0;
  record.exit_code = 768;
  CHECK(outcome_of(record) == JobOutcome::failure);
}

TEST_CASE("on another node than the first, the first node's word about the batch script counts") {
  JobRecord record{.begin = {.node_count = 2, .node_index = 1},
                   .last_status = 0,
                   .facts = {.batch = true},
                   .outcome_known = true};
  CHECK(outcome_of(record) == JobOutcome::unknown);
  record.first_status = 15;  // the job was cancelled after that step
  CHECK(outcome_of(record) == JobOutcome::failure);
  record.last_status = 256;
  record.first_status = 0;
  CHECK(outcome_of(record) == JobOutcome::success);
  record.facts.batch = false;  // salloc: what ran here counts, then what ran there
  CHECK(outcome_of(record) == JobOutcome::failure);
  record.last_status.reset();
  CHECK(outcome_of(record) == JobOutcome::success);
}

TEST_CASE("a failed step on another node than the first does not tell how the job ended") {
  JobRecord record{.begin = {.node_count = 2, .node_index = 1}, .last_status = 256};
  CHECK(outcome_of(record) == JobOutcome::unknown);
  record.last_status = 15;  // a signal
  CHECK(outcome_of(record) == JobOutcome::failure);
  record.last_status = 0;
  CHECK(outcome_of(record) == JobOutcome::success);
  record.last_status = 256;
  record.begin.node_index = 0;
  CHECK(outcome_of(record) == JobOutcome::failure);
}

TEST_CASE("what a daemon had begun to write when it died is removed, and nothing else") {
  const Saved saved;
  const std::filesystem::path jobs = saved.scratch / "state/jobs";
  for (const char* name : {".12.1.json.new", ".13.0.request.new", "13.0.request"})
    std::ofstream(jobs / name) << "x";
  for (const char* name : {"14.0.json", "14.0.request", "README"})
    std::ofstream(jobs / name) << "x";
  const auto loaded = saved.journal->load();
  CHECK(loaded.records.size() == 1);
  CHECK(loaded.faults.size() == 1);
  std::set<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(jobs))
    left.insert(file.path().filename());
  CHECK(left ==
        std::set<std::string>{"12.1.json", "12.1.request", "14.0.json", "14.0.request", "README"});
}
