#include <doctest/doctest.h>

#include "push_site.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t k_job = 7;

// A job with an output file, whose stage-out ends as the test says.
struct ToldSite : JobSite {
  explicit ToldSite(const char* stdout_path = "/home/alice/slurm-%j.out") {
    Begin begin = request(k_job);
    begin.stdout_path = stdout_path;
    config.stageout.report = ReportTo::output;
    REQUIRE(std::holds_alternative<Accepted>(jobs->begin(begin)));
    REQUIRE(workers.say(WorkerTask::stage, k_job, WorkerPhase::done, {}));
    REQUIRE(workers.end(WorkerTask::stage));
    wait(k_job);
    answers.clear();
    end(k_job);
  }
  void stage_out(WorkerPhase phase, ItemState state, const char* note = "") {
    REQUIRE(workers.say(WorkerTask::stage_out, k_job, phase, {output("a", state, 0, note)}));
    REQUIRE(workers.end(WorkerTask::stage_out));
  }
  // What is appended to the job's output now; "" when nothing is.
  [[nodiscard]] std::string lines() {
    const auto* started = workers.find(WorkerTask::append);
    return started == nullptr ? "" : started->request;
  }
  [[nodiscard]] bool is_answered() const {
    return !answers.empty() && std::holds_alternative<Ended>(answers.back());
  }
};

}  // namespace

TEST_CASE("the epilog is answered when the job's output says what became of the results") {
  ToldSite site;
  site.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(site.lines() == "nodestage: n1: a -> /scratch/out: 3 files, 30 B in 0.0 s\n");
  CHECK_FALSE(site.is_answered());
  CHECK(site.end(k_job) != 0);  // a second end starts nothing
  CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
  REQUIRE(site.workers.end(WorkerTask::append));
  CHECK(site.is_answered());
  CHECK(site.state_of(k_job) == "");
}

TEST_CASE("an output that does not answer keeps no epilog waiting for long") {
  ToldSite site;
  site.stage_out(WorkerPhase::done, ItemState::done);
  site.pass(9s);
  CHECK_FALSE(site.is_answered());
  site.pass(2s);
  CHECK(site.is_answered());
  REQUIRE(site.workers.end(WorkerTask::append, {WorkerEnd::Kind::ended, "was killed"}));
  CHECK(site.state_of(k_job) == "");
}

TEST_CASE("an epilog that can wait no longer goes when its results have been delivered") {
  ToldSite site;
  site.config.stageout.epilog_wait_s = 600;
  site.stage_out(WorkerPhase::done, ItemState::done);
  site.jobs->end(End{k_job, k_no_number, 0, 1}, site.reply);
  site.pass(2s);
  CHECK(site.is_answered());
  CHECK(site.trees("hold") == 0);
}

TEST_CASE("where there is no file for the lines, nothing waits for them") {
  ToldSite device("/dev/null");
  device.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(device.lines() == "");
  CHECK(device.is_answered());
  ToldSite site;
  site.config.stageout.report = ReportTo::none;
  site.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(site.lines() == "");
}

TEST_CASE("results that are held are told, with how to fetch them") {
  ToldSite site;
  site.stage_out(WorkerPhase::failed, ItemState::failed, "disk full");
  CHECK(site.is_answered());
  CHECK(site.lines() ==
        "nodestage: n1: a -> /scratch/out: not delivered: disk full\n"
        "nodestage: n1: what could not be delivered is kept on this node: `nodestage recover 7 DIR "
        "--node=n1` copies it to DIR\n");
}

TEST_CASE("many long lines fit where a worker reads them") {
  ToldSite site;
  std::vector<ItemRecord> items;
  for (int i = 0; i < 64; ++i)
    items.push_back(output("a", ItemState::failed, 0, std::string(1600, 'x').c_str()));
  REQUIRE(site.workers.say(WorkerTask::stage_out, k_job, WorkerPhase::failed, items));
  REQUIRE(site.workers.end(WorkerTask::stage_out));
  CHECK(site.lines().size() < k_max_request_bytes);
  CHECK(site.lines().find(" more: nodestage report 7)\n") != std::string::npos);
}
