#include <doctest/doctest.h>
#include <poll.h>

#include <fstream>
#include <optional>

#include "push_site.hpp"
#include "texts.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

constexpr const char* k_output = "/home/alice/slurm-%j.out";

// A job with an output file, whose stage-out ends as the test says.
struct ToldSite : JobSite {
  explicit ToldSite(const char* stdout_path = k_output, std::uint32_t step = k_slurm_batch_step) {
    config.stageout.report = ReportTo::output;
    Begin begin = request(k_job);
    begin.stdout_path = stdout_path;
    run(begin, step);
    answers.clear();
    end(k_job);
  }
  // Of several nodes, the second one.
  struct Second {};
  explicit ToldSite(Second) {
    config.stageout.report = ReportTo::output;
    Begin begin = shared_request(k_job);
    begin.stdout_path = k_output;
    run(begin, 0);
    JobNote note{.verdict = Verdict::ready,
                 .facts = {true, k_no_number, k_no_number, "name", true}};
    hear_from_first(k_job, note);
    end(k_job);
  }
  // The second component of a heterogeneous job, of whose first scontrol says so.
  explicit ToldSite(const std::string& first, const char* stdout_path = k_output) {
    config.stageout.report = ReportTo::output;
    config.slurm.scontrol = scratch / "scontrol";
    std::ofstream(config.slurm.scontrol)
        << "#!/bin/sh\n[ \"$4\" = 6 ] && echo '" << first << " x'\n";
    std::filesystem::permissions(config.slurm.scontrol, std::filesystem::perms::owner_all);
    Begin begin = request(k_job);
    begin.stdout_path = stdout_path;
    begin.het_job = k_job - 1;
    run(begin, 0);
    end(k_job);
    stage_out(WorkerPhase::done, ItemState::done);
    for (int looks = 0; workers.find(WorkerTask::append) == nullptr && !is_answered(); ++looks) {
      REQUIRE_MESSAGE(looks < 60'000, "scontrol's answer leads to no lines and to no answer");
      ::poll(nullptr, 0, 1);
      pass(0ms);
    }
  }
  void run(const Begin& begin, std::uint32_t step) {
    accept(begin);
    workers.finish(WorkerTask::stage, k_job, WorkerPhase::done, {});
    Wait wait{.job = k_job, .step = step, .interval_ms = 1000};
    jobs->wait(wait, reply);
  }
  void stage_out(WorkerPhase phase, ItemState state, const char* note = "") {
    workers.finish(WorkerTask::stage_out, k_job, phase, {output("a", state, 0, note)});
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
  site.pass(5s);
  CHECK_FALSE(site.is_answered());
  site.pass(6s);
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

TEST_CASE("a job without a batch script has no output that could take lines") {
  ToldSite step("", 0);
  step.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(step.lines() == "");
  CHECK(step.is_answered());
  ToldSite batch("");
  batch.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(batch.lines() != "");
}

TEST_CASE("a node that ends before the batch script does writes nothing into its output") {
  ToldSite site{ToldSite::Second{}};
  site.pass(std::chrono::seconds(site.config.peer.outcome_wait_s + 1));
  site.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(site.lines() == "");
  CHECK(site.is_answered());
}

TEST_CASE("a node that ends when the batch script has ended writes its lines") {
  ToldSite site{ToldSite::Second{}};
  JobNote note{.outcome_known = true, .status = 0};
  site.hear_from_first(k_job, note);
  site.stage_out(WorkerPhase::done, ItemState::done);
  CHECK(site.lines() != "");
}

TEST_CASE("a later component writes to the output of the first, or to a file while that runs") {
  if (skipped_without_root()) return;
  struct Row {
    const char* first;
    LinesTo to;
    const char* job_name;
  };
  for (const Row& row :
       {Row{"JobId=6 JobName=a b UserId=c(1) JobState=COMPLETING BatchFlag=1", LinesTo::output,
            "a b"},
        Row{"slurm_load_jobs error: Invalid job id specified", LinesTo::output, ""},
        Row{"JobId=6 JobState=RUNNING BatchFlag=1", LinesTo::file, ""},
        Row{"no answer", LinesTo::file, ""}}) {
    CAPTURE(row.first);
    ToldSite site{std::string(row.first)};
    const auto& order = site.workers.order<AppendOrder>();
    CHECK(order.lines_to == row.to);
    CHECK(order.output_job == 6);
    CHECK(order.job_name == row.job_name);
    CHECK(site.lines() == "nodestage: n1 (6+1): a -> /scratch/out: 3 files, 30 B in 0.0 s\n");
  }
}

TEST_CASE("a component of a job without a script has no output") {
  if (skipped_without_root()) return;
  ToldSite site(std::string("JobId=6 JobState=COMPLETING BatchFlag=0"), "");
  CHECK(site.lines() == "");
  CHECK(site.is_answered());
}

TEST_CASE("a run that is delivered beside the next one leaves the output to that") {
  ToldSite site;
  Begin next = site.request(k_job, 1);
  next.stdout_path = k_output;
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  REQUIRE(site.is_answered());
  SUBCASE("while the next one runs") {
    site.accept(next);
    site.stage_out(WorkerPhase::done, ItemState::done);
    CHECK(site.lines() == "");
  }
  SUBCASE("and what is held of it is told in the notice") {
    site.accept(next);
    site.stage_out(WorkerPhase::failed, ItemState::failed, "disk full");
    CHECK(site.lines() == "");
  }
  SUBCASE("when there is no next one") {
    site.stage_out(WorkerPhase::done, ItemState::done);
    CHECK(site.lines() != "");
  }
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

TEST_CASE("an async item that fails after the job's start is told at its end, and no other one") {
  struct Row {
    ItemState state;
    std::uint32_t flags;
    std::uint64_t ended_ms;
    std::optional<WorkerEnd> worker_end;
    const char* told;
  };
  constexpr std::uint64_t k_later = std::uint64_t{1} << 45;
  const WorkerEnd killed{WorkerEnd::Kind::no_memory, "ran out of memory"};
  for (const Row& row :
       {Row{ItemState::failed, k_item_async, k_later, k_code_0,
            "nodestage: n1: cut.tar: not staged: it is cut off\nnodestage: n1:   Make it again\n"},
        Row{ItemState::failed, k_item_async, 1, k_code_0, ""},
        Row{ItemState::done, k_item_async, k_later, k_code_0, ""},
        Row{ItemState::failed, k_item_optional, k_later, k_code_0, ""},
        Row{ItemState::working, k_item_async, 0, killed,
            "nodestage: n1: cut.tar: not staged: the staging process ran out of memory before it "
            "was staged\n"},
        Row{ItemState::working,
            k_item_async,
            0,
            {},
            "nodestage: n1: cut.tar: not staged: it was not complete when the job ended\n"}}) {
    CAPTURE(row.told);
    JobSite site;
    site.config.stageout.report = ReportTo::output;
    Begin begin = site.request(k_job);
    begin.stdout_path = k_output;
    site.accept(begin);
    ItemRecord item = output("cut.tar", ItemState::working, row.flags);
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::ready, {item}));
    site.pass(1s);
    Wait wait{.job = k_job, .step = k_slurm_batch_step, .interval_ms = 1000};
    site.jobs->wait(wait, site.reply);
    item.state = static_cast<std::uint32_t>(row.state);
    item.ended_ms = row.ended_ms;
    if (row.state == ItemState::failed) set_field(item.note, "it is cut off\nMake it again");
    const bool has_ended = row.state != ItemState::working;
    REQUIRE(site.workers.say(WorkerTask::stage, k_job,
                             has_ended ? WorkerPhase::done : WorkerPhase::ready, {item}));
    if (row.worker_end) REQUIRE(site.workers.end(WorkerTask::stage, *row.worker_end));
    site.end(k_job);
    if (!row.worker_end) REQUIRE(site.workers.end(WorkerTask::stage, k_dead));
    site.workers.finish(WorkerTask::stage_out, k_job, WorkerPhase::done, {});
    const auto* started = site.workers.find(WorkerTask::append);
    CHECK((started == nullptr ? "" : started->request) == row.told);
  }
}

TEST_CASE("many long lines fit where a worker reads them") {
  ToldSite site;
  std::vector<ItemRecord> items;
  for (int i = 0; i < 64; ++i)
    items.push_back(output("a", ItemState::failed, 0, std::string(1600, 'x').c_str()));
  site.workers.finish(WorkerTask::stage_out, k_job, WorkerPhase::failed, items);
  CHECK(site.lines().size() < k_max_request_bytes);
  CHECK(site.lines().find(" more: nodestage report 7)\n") != std::string::npos);
}
