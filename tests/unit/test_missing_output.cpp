// Outputs whose source does not exist: what is reported, and what is kept.
#include <doctest/doctest.h>

#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

TEST_CASE("a misspelled name in braces keeps what was probably meant") {
  StageOutJob job;
  for (const char* name : {"checkpoints/a", "logs/b"}) write_file(job.directory / name, name);
  job.ask("{checkpoint,logs}", "out");
  CHECK(job.run() == 1);
  CHECK(names_in(job.target / "out") == Names{"logs"});
  CHECK(job.note() ==
        "nothing in the job's directory is named or matches 'checkpoint' (did you mean "
        "'checkpoints'?)");
  CHECK((job.status.items[0].flags & k_item_final) != 0);
  job.order.task = WorkerTask::recover;
  job.order.recover_to = (job.target / "rescued").string();
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "rescued/checkpoints/a") == "checkpoints/a");
  CHECK(file_text(job.target / "rescued/logs/b") == "logs/b");
}

TEST_CASE("'*' and '.*' in braces: one that matches nothing beside the other is not missing") {
  for (const char* source : {"{*,.*}", "run/{*,.*}", "run/{.*,**}", "run/{a,*.pt,.*}"}) {
    CAPTURE(source);
    StageOutJob job({{"run/a", "1"}, {"run/b.pt", "2"}});
    job.ask(source, "out");
    REQUIRE(job.run() == 0);
    CHECK((job.status.items[0].flags & k_item_missing) == 0);
    CHECK(job.note().find("nothing") == std::string::npos);
  }
  for (const char* source : {"{run,rnu}/*", "run/{*,.*,x}", "{run,empty}/{*,.*}", "empty/{*,.*}"}) {
    CAPTURE(source);
    StageOutJob job({{"run/a", "1"}});
    fs::create_directory(job.directory / "empty");
    job.ask(source, "out");
    job.ask("run", "all");
    job.run();
    CHECK((job.status.items[0].flags & (k_item_missing | k_item_final)) != 0);
  }
}

TEST_CASE("a missing source where all that is left is named by outputs: reported, and not kept") {
  for (const char* way : {"itself", "below", "by a link", "by a glob", "excluded", "delivered"}) {
    CAPTURE(std::string(way));
    StageOutJob job;
    const std::string how = way;
    write_file(job.directory / "run/results/a", "1");
    fs::create_directories(job.directory / "empty");
    fs::create_directory_symlink("run", job.directory / "latest");
    job.ask("reslts", "out");
    job.ask(how == "itself"      ? "run"
            : how == "by a link" ? "latest/results"
            : how == "by a glob" ? "r*/*"
                                 : "run/results",
            "a");
    if (how == "excluded") job.request.outputs[1].when = When::failure;
    if (how == "delivered") job.order.delivered = 2;
    CHECK(job.run() == 0);
    CHECK(job.state(0) == ItemState::skipped);
    CHECK((job.status.items[0].flags & k_item_missing) != 0);
  }
}

TEST_CASE("a missing source: its target as it would be, and a link to nothing is called so") {
  StageOutJob job;
  fs::create_symlink("gone/last.pt", job.directory / "best");
  job.ask("best", "out/run_%j");
  job.run();
  CHECK(
      has(field_text(job.status.items[0].destination), "out/run_" + std::to_string(job.order.job)));
  CHECK(has(job.note(), "best: a link to what does not exist"));
}

TEST_CASE("of several nodes, what has a similar name is kept; a log of its own is not") {
  struct Row {
    std::uint32_t node;
    const char* asked;
    const char* left;
    JobOutcome outcome;
    bool is_kept;
  };
  using enum JobOutcome;
  for (const Row& row :
       {Row{1, "checkpoint", "checkpoints/1.pt", failure, true},
        Row{1, "checkpoint", "run/checkpoint/1.pt", success, true},
        Row{1, "*.pt", "a.PT", success, true}, Row{1, "results", "rank1.log", success, false},
        Row{1, "rank0.log", "rank1.log", success, false}, Row{1, "log", "log.n1", success, false},
        Row{1, "results", "other/a", success, false}, Row{0, "results", "other/a", success, true},
        Row{0, "results", "other/a", failure, false},
        Row{0, "results", "rank0.log", success, false}}) {
    CAPTURE(std::string(row.left));
    CAPTURE(row.node);
    StageOutJob job({{row.left, "1"}});
    job.ask(row.asked, "out");
    job.order.outcome = row.outcome;
    job.order.node_index = row.node;
    job.order.node_count = 2;
    CHECK(job.run() == (row.is_kept ? 1 : 0));
    CHECK(job.state() == (row.is_kept ? ItemState::failed : ItemState::skipped));
    const bool is_reported = (job.status.items[0].flags & k_item_missing) != 0;
    CHECK(is_reported == (!row.is_kept && row.node == 0));
  }
}

TEST_CASE("a missing source is no reason to keep anything: optional, staged data alone") {
  for (const bool is_optional : {false, true}) {
    StageOutJob job({{"data/one", "1"}});
    if (is_optional) write_file(job.directory / "scratch/x", "1");
    job.request.datasets.push_back({"/p/data.tar", "data"});
    job.ask("reslts", "out").optional = is_optional;
    CHECK(job.run() == 0);
    CHECK(job.state(0) == ItemState::skipped);
    CHECK(((job.status.items[0].flags & k_item_missing) != 0) == !is_optional);
  }
}

TEST_CASE("a missing source is a warning, which says where the job wrote it instead") {
  StageOutJob job;
  write_file(job.target / "results/count", "1");
  job.order.work_dir = job.target;
  job.ask("results", "out");
  job.ask("*.pt", "out");
  CHECK(job.run() == 0);
  CHECK(job.status.phase == WorkerPhase::done);
  CHECK(job.state(0) == ItemState::skipped);
  CHECK(job.note(0) == "results: nothing of that name in the job's directory; there is one in " +
                           job.target.string() +
                           ", but results are taken from $SLURM_TMPDIR alone");
  CHECK(job.state(1) == ItemState::skipped);
  CHECK(job.note(1) == "*.pt: nothing of that name in the job's directory");
  // What was there before is another job's.
  REQUIRE(std::system(("touch -d 2001-02-03 " + (job.target / "results").string()).c_str()) == 0);
  CHECK(job.run() == 0);
  CHECK(job.note(0) == "results: nothing of that name in the job's directory");
  CHECK(names_in(job.target) == Names{"results"});
}
