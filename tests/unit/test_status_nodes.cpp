#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "cli/status/status.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"
#include "status_sample.hpp"

using namespace nodestage;

namespace {

ProgramEnd end_of(int code, const std::string& output, const std::string& errors) {
  return {code, false, output, errors};
}

// That of sample_job().
SlurmJob sample_slurm_job() {
  SlurmJob job;
  job.id = 12;
  job.uid = 1001;
  return job;
}

}  // namespace

TEST_CASE("the step on a node gets PATH, where slurm.conf is, and what makes it an observer") {
  ::setenv("SLURM_NTASKS", "7", 1);
  ::setenv("SECRET", "s3cret", 1);
  ::setenv("SLURM_CONF", "/etc/slurm/slurm.conf", 1);
  SlurmJob job;
  job.id = 12;
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
    StatusReport told;
    told.jobs = {sample_job("n1", "ready", {}), std::move(status)};
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
