#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/status/status.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"
#include "common/wire/node_report.hpp"
#include "status_sample.hpp"

using namespace nodestage;

TEST_CASE("status: rate and time left are told only where they are known") {
  StatusItem item = sample_item(ItemState::working);
  CHECK(rate_of(item) == 512 << 10);
  CHECK(seconds_left(item) == 6);
  item.bytes_total = 0;
  CHECK_FALSE(seconds_left(item));
  item = sample_item(ItemState::working);
  item.bytes_read = 0;
  CHECK(rate_of(item) == 0);
  CHECK_FALSE(seconds_left(item));
  item.bytes_read = 1;
  item.bytes_total = k_largest_claim;
  CHECK_FALSE(seconds_left(item));
  item.elapsed_ms = 99;
  CHECK(rate_of(item) == 0);
  CHECK(rate_of(sample_item(ItemState::done)) == 4 << 20);
  CHECK_FALSE(seconds_left(sample_item(ItemState::done)));
  CHECK(rate_of(sample_item(ItemState::waiting)) == 0);
}

TEST_CASE("status: the JSON of a node is read back as it was") {
  StatusReport report;
  StatusItem venv = sample_item(ItemState::failed);
  venv.kind = ItemKind::venv;
  venv.flags = k_item_async | k_item_optional;
  venv.bytes_total = 0;
  venv.elapsed_ms = 1234;
  venv.note = "no wheel";
  StatusItem linked = sample_item(ItemState::done);
  linked.flags = k_item_linked;
  StatusItem output = sample_item(ItemState::done);
  output.kind = ItemKind::output;
  output.flags = k_item_unsettled;
  report.jobs.push_back(
      sample_job("n1", "failed", {sample_item(ItemState::working), venv, linked, output}));
  report.jobs[0].row.restart = 2;
  report.jobs[0].row.cause = "a cause\nwhat to do";
  report.jobs[0].row.others = "1 of 2 nodes is not ready: n2";
  report.jobs[0].row.kept_in = "/hold/12.2";
  for (const JsonForm form : {JsonForm::indented, JsonForm::one_line}) {
    const std::string text = to_json(report, form);
    CHECK((text.find('\n') == std::string::npos) == (form == JsonForm::one_line));
    const auto read = jobs_of_json(text);
    REQUIRE(read);
    REQUIRE(read->size() == 1);
    CHECK(encode_message(read->front().row) == encode_message(report.jobs[0].row));
    REQUIRE(read->front().items.size() == 4);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(encode_message(read->front().items[i]) == encode_message(report.jobs[0].items[i]));
  }
}

TEST_CASE("status: the names and units that the manual promises") {
  StatusReport report;
  report.jobs.push_back(sample_job("n1", "staging", {sample_item(ItemState::working)}));
  report.faults.push_back({"n2", "no answer"});
  report.slurm_state = "RUNNING";
  const auto expected = nlohmann::json::parse(R"({"version":1,"slurm_state":"RUNNING",
    "faults":[{"node":"n2","fault":"no answer"}],
    "jobs":[{"job":12,"restart":0,"uid":1001,"user":"alice","node":"n1","state":"staging",
      "begun":1700000000,"items":[{"kind":"dataset","state":"working","async":false,
        "optional":false,"name":"DATA","what":"tar.gz","source":"/project/data.tar.gz",
        "destination":"/localscratch/alice.12.0/data","bytes_read":1048576,
        "bytes_total":4194304,"bytes_written":8388608,"files":12345,"elapsed_seconds":2.0,
        "bytes_per_second":524288,"seconds_left":6}]}]})");
  CHECK(nlohmann::json::parse(to_json(report, JsonForm::one_line)) == expected);
}

TEST_CASE("status: broken and hostile JSON of a node is refused, bounded and made printable") {
  StatusReport report;
  report.jobs.push_back(sample_job("n1", "staging", {sample_item(ItemState::working)}));
  const std::string good = to_json(report, JsonForm::one_line);
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    CHECK_FALSE(jobs_of_json(good.substr(0, bytes)));
  const auto with = [&](const char* name, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(good);
    auto& item = json["jobs"][0]["items"][0];
    (json.contains(name)              ? json[name]
     : json["jobs"][0].contains(name) ? json["jobs"][0][name]
                                      : item[name]) = value;
    // Kind and state are of an item, too.
    if (std::string(name) == "kind") item[name] = value;
    return jobs_of_json(json.dump());
  };
  CHECK_FALSE(with("version", 2));
  CHECK_FALSE(with("jobs", 7));
  CHECK_FALSE(with("job", 1LL << 40));
  CHECK_FALSE(with("job", -1));
  CHECK_FALSE(with("job", "12"));
  CHECK_FALSE(with("node", 3));
  CHECK_FALSE(with("items", {1}));
  CHECK_FALSE(with("kind", "cup"));
  CHECK_FALSE(with("files", 1e40));
  CHECK_FALSE(with("elapsed_seconds", -1));
  CHECK_FALSE(with("elapsed_seconds", "long"));
  CHECK_FALSE(with("async", 1));
  CHECK(with("files", ~0ULL)->front().items[0].files == k_largest_claim);
  CHECK(with("elapsed_seconds", 1e300)->front().items[0].elapsed_ms == k_largest_claim);
  CHECK(with("source", "/\x1b[2J")->front().items[0].source == "/\\x1b[2J");
  CHECK(with("node", "n\x07")->front().row.node == "n\\x07");
  CHECK_FALSE(jobs_of_json("[]"));
  CHECK_FALSE(jobs_of_json("nodestage: what?"));
  CHECK_FALSE(jobs_of_json(std::string(100000, '[')));
}

TEST_CASE("status: what still moves is watched, what does not is not") {
  const auto moves = [](const JobStatus& job) {
    StatusReport report;
    report.jobs.push_back(job);
    return is_moving(report);
  };
  // As the daemon sends them.
  for (const JobState state :
       {JobState::waiting_for_directory, JobState::queued, JobState::staging, JobState::stopping,
        JobState::awaiting_outcome, JobState::staging_out})
    CHECK(moves(sample_job("n1", to_text(state), {})));
  for (const JobState state : {JobState::ready, JobState::failed, JobState::held, JobState::gone})
    CHECK_FALSE(moves(sample_job("n1", to_text(state), {})));
  CHECK(moves(sample_job("n1", "ready", {sample_item(ItemState::working)})));  // async
  CHECK_FALSE(moves(sample_job("n1", "failed", {sample_item(ItemState::working)})));
  JobStatus others = sample_job("n1", "ready", {});
  others.row.others = "1 of 2 nodes is not ready: n2";
  CHECK(moves(others));
  StatusReport pending;
  CHECK_FALSE(is_moving(pending));
  pending.slurm_state = "PENDING";
  CHECK(is_moving(pending));
  pending.faults.push_back({"n1", "gone"});
  CHECK_FALSE(is_moving(pending));
}

namespace {

ProgramEnd end_of(int code, const std::string& output, const std::string& errors) {
  return {code, false, output, errors};
}

// That of sample_job().
SlurmJob sample_slurm_job() { return {.id = 12, .uid = 1001}; }

}  // namespace

TEST_CASE("the step on a node gets PATH, where slurm.conf is, and what makes it an observer") {
  ::setenv("SLURM_NTASKS", "7", 1);
  ::setenv("SECRET", "s3cret", 1);
  ::setenv("SLURM_CONF", "/etc/slurm/slurm.conf", 1);
  SlurmJob job{.id = 12};
  const Program program = step_on("n1", job, k_socket_path);
  REQUIRE(program.environment);
  for (const std::string& variable : *program.environment) {
    const std::string name = variable.substr(0, variable.find('='));
    const bool is_known =
        name == "PATH" || name == "SLURM_CONF" || name == "LC_ALL" || name == k_observer_variable;
    CHECK_MESSAGE(is_known, variable);
  }
  CHECK(program.environment->size() == 4);
  const auto has = [&](const char* word) {
    return std::find(program.words.begin(), program.words.end(), word) != program.words.end();
  };
  for (const char* word : {"--jobid=12", "--overlap", "--nodelist=n1", "--here", "--json"})
    CHECK_MESSAGE(has(word), word);
  CHECK(step_on("n1", job, "/x").words.back() == "--socket=/x");
  ::unsetenv("SLURM_NTASKS");
  ::unsetenv("SECRET");
  ::unsetenv("SLURM_CONF");
}

TEST_CASE("answers of nodes become one report, and what went wrong is named by node") {
  StatusReport of_n1;
  of_n1.jobs.push_back(sample_job("n1", "ready", {sample_item(ItemState::done)}));
  StatusReport of_n2;
  of_n2.jobs.push_back(sample_job("n2", "staging", {}));
  StatusReport merged;
  add_answer(merged, "n1", sample_slurm_job(), end_of(0, to_json(of_n1, JsonForm::indented), ""));
  add_answer(merged, "n2", sample_slurm_job(), end_of(0, to_json(of_n2, JsonForm::one_line), ""));
  CHECK(merged.faults.empty());
  REQUIRE(merged.jobs.size() == 2);
  CHECK(merged.jobs[0].items.size() == 1);
  CHECK(merged.jobs[1].row.node == "n2");

  add_answer(merged, "n3", sample_slurm_job(), end_of(0, "{\"version\":1", ""));
  add_answer(merged, "n4", sample_slurm_job(),
             end_of(3, "", "nodestage: nodestaged knows no job\n"));
  add_answer(merged, "n5", sample_slurm_job(),
             end_of(1, "", "srun: x\nnodestage: nodestaged does not answer\ny\n"));
  add_answer(merged, "n6", sample_slurm_job(),
             end_of(1, "", "srun: error: Unable to create step\nmore\n"));
  add_answer(merged, "n7", sample_slurm_job(), {143, true, "", "srun: error: late\n"});
  add_answer(merged, "n8", sample_slurm_job(), end_of(127, "", ""));
  add_answer(merged, "n9", sample_slurm_job(), end_of(1, "", ""));
  CHECK(merged.jobs.size() == 2);
  REQUIRE(merged.faults.size() == 7);
  CHECK(merged.faults[0].node == "n3");
  CHECK(merged.faults[0].what.starts_with("the answer cannot be read: "));
  CHECK(merged.faults[1].what == "nodestaged on this node does not know the job");
  CHECK(merged.faults[2].what == "nodestaged does not answer");
  CHECK(merged.faults[3].what == "srun: error: Unable to create step");
  CHECK(merged.faults[4].what == "no answer within 20 s");
  CHECK(merged.faults[5].what == "srun cannot be run on this host");
  CHECK(merged.faults[6].what == "srun failed without a message");
}

TEST_CASE("a node's answer, which the job's user can forge, tells of no other job or user") {
  const auto faults_of = [](JobStatus status) {
    StatusReport told{.jobs = {sample_job("n1", "ready", {}), std::move(status)}};
    StatusReport merged;
    add_answer(merged, "n1", sample_slurm_job(), end_of(0, to_json(told, JsonForm::one_line), ""));
    CHECK(merged.jobs.size() == (merged.faults.empty() ? 2 : 0));
    return merged.faults.size();
  };
  JobStatus status = sample_job("n1", "failed", {});
  CHECK(faults_of(status) == 0);
  status.row.job = 13;
  CHECK(faults_of(status) == 1);
  status.row = sample_job("n1", "failed", {}).row;
  status.row.uid = 1002;
  CHECK(faults_of(status) == 1);
}
