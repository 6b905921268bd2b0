#include <doctest/doctest.h>

#include <cstdlib>

#include "common/os/wall_clock.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

TEST_CASE("the contents of a directory, or with a trailing slash the directory") {
  StageOutJob job({{"run/results/a", "1"}});
  fs::permissions(job.directory / "run/results", fs::perms(0700));
  job.ask("run/results", "contents");
  job.ask("run/results", "inside/");
  job.ask("run/results/", "inside2/");
  REQUIRE(job.run() == 0);
  CHECK(job.status.phase == WorkerPhase::done);
  CHECK(job.what() == "directory");
  CHECK(names_in(job.target / "contents") == Names{"a"});
  CHECK((lstat_of(job.target / "contents").st_mode & 0777) == 0700);
  CHECK(names_in(job.target / "inside") == Names{"results"});
  CHECK((lstat_of(job.target / "inside/results").st_mode & 0777) == 0700);
  CHECK(file_text(job.target / "inside2/results/a") == "1");
}

TEST_CASE("an output tells when it was begun and ended, one that was skipped does not") {
  StageOutJob job({{"a", "1"}});
  job.ask("a", "out");
  job.ask("missing", "out");
  const std::uint64_t before = wall_ms();
  REQUIRE(job.run() == 0);
  const ItemRecord& done = job.status.items[0];
  CHECK(done.begun_ms + 1 >= before);
  CHECK(done.begun_ms <= done.ended_ms);
  CHECK(done.ended_ms <= wall_ms() + 1);
  CHECK(job.status.items[1].begun_ms == 0);
  CHECK(job.status.items[1].ended_ms == 0);
}

TEST_CASE("a file: its new name, or into a directory") {
  StageOutJob job({{"a.h5", "1"}});
  fs::create_directory(job.target / "there");
  fs::create_directory_symlink("there", job.target / "link");
  job.ask("a.h5", "new/b.h5");
  job.ask("a.h5", "slash/");
  job.ask("a.h5", "there");
  job.ask("a.h5", "link/sub/");
  REQUIRE(job.run() == 0);
  CHECK(job.what() == "file");
  CHECK(names_in(job.target / "new") == Names{"b.h5"});
  CHECK(names_in(job.target / "slash") == Names{"a.h5"});
  CHECK(names_in(job.target / "there") == Names{"a.h5", "sub"});
}

TEST_CASE("a glob: each match under its base name, hidden files only when named") {
  StageOutJob job;
  for (const char* name : {"1.pt", "2.pt", ".3.pt", "x.txt"})
    write_file(job.directory / "run" / name, name);
  write_files(job.directory, {{".nodestage-1/x", ""}, {"run2/sub.pt/inner", "4"}});
  fs::create_symlink("1.pt", job.directory / "run/l.pt");
  job.ask("run*/*.pt", "out");
  job.ask("run/.*.pt", "hidden");
  job.ask("*", "all");
  job.ask(".*", "dots");
  REQUIRE(job.run() == 0);
  CHECK(job.what() == "4 matches");
  CHECK(names_in(job.target / "out") == Names{"1.pt", "2.pt", "l.pt", "sub.pt"});
  CHECK(fs::is_symlink(job.target / "out/l.pt"));
  CHECK(file_text(job.target / "out/sub.pt/inner") == "4");
  CHECK(names_in(job.target / "hidden") == Names{".3.pt"});
  CHECK(names_in(job.target / "all") == Names{"run", "run2"});
  CHECK(job.state(3) == ItemState::skipped);
}

TEST_CASE("a literal name goes before the glob, and a backslash is read by the glob") {
  StageOutJob job({{"a[1]", "literal"}, {"a1", "matched"}, {"b*", "star"}, {"bb", "other"}});
  job.ask("a[1]", "one/");
  job.ask("b\\*", "two/");
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target / "one") == Names{"a[1]"});
  CHECK(names_in(job.target / "two") == Names{"b*"});
}

TEST_CASE("** is any number of directories, none too") {
  StageOutJob job;
  for (const char* name :
       {"r/x.pt", "r/a/y.pt", "r/a/b/z.pt", "r/.h/h.pt", "r/c.pt/inner.pt", "q/x.pt"})
    write_file(job.directory / name, name);
  fs::create_directory_symlink(job.directory / "q", job.directory / "r/link");
  job.ask("r/**/*.pt", "out");
  job.ask("r/**", "all");
  job.ask("**/b/**/z*", "deep");
  job.ask("**/none", "none").optional = true;  // else q, which no output names, would be held
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target / "out") == Names{"c.pt", "x.pt", "y.pt", "z.pt"});
  CHECK(file_text(job.target / "out/c.pt/inner.pt") == "r/c.pt/inner.pt");
  CHECK(names_in(job.target / "all") == Names{"a", "c.pt", "link", "x.pt"});
  CHECK(file_text(job.target / "all/a/b/z.pt") == "r/a/b/z.pt");
  CHECK(names_in(job.target / "deep") == Names{"z.pt"});
  CHECK(job.state(3) == ItemState::skipped);
}

TEST_CASE("braces: several names, of which those that do not exist are told") {
  StageOutJob job;
  for (const char* name : {"r/000.pt", "r/001.pt", "r/003.pt", "logs/a", "r/{a,b}"})
    write_file(job.directory / name, name);
  job.ask("r/{000..003}.pt", "shards");
  job.ask("{logs,r/00[01]*}", "both");
  job.ask("r/{a,b}", "literal/");
  job.ask("{x,y}", "none");
  REQUIRE(job.run() == 0);
  CHECK(job.what() == "3 matches");
  CHECK(names_in(job.target / "shards") == Names{"000.pt", "001.pt", "003.pt"});
  CHECK(job.note() == "nothing in the job's directory is named or matches 'r/002.pt'");
  CHECK(names_in(job.target / "both") == Names{"000.pt", "001.pt", "logs"});
  CHECK(names_in(job.target / "literal") == Names{"{a,b}"});
  CHECK(job.state(3) == ItemState::skipped);
}

TEST_CASE("two matches of one base name: not one over the other") {
  StageOutJob job({{"a/log", "1"}, {"b/log", "2"}});
  job.ask("*/log", "out");
  CHECK(job.run() == 1);
  CHECK(file_text(job.target / "out/log") == "1");
  CHECK(job.note() ==
        "b/log: another match is called log too, and only one of them can have that name in the "
        "target; let the pattern match the directories that they are in");
  job.request.outputs[0].source = "*";  // as it says
  REQUIRE(job.run() == 0);
  check_files(job.target, {{"out/a/log", "1"}, {"out/b/log", "2"}});
}

TEST_CASE(
    "a missing source, and something that no output names: it is kept, whatever the outcome") {
  for (const auto outcome : {JobOutcome::success, JobOutcome::failure, JobOutcome::unknown}) {
    for (const bool is_another_there : {false, true}) {
      CAPTURE(is_another_there);
      StageOutJob job({{"results/a", "1"}, {"logs/l", "1"}, {"data/one", "staged"}});
      job.request.datasets.push_back({"/p/data.tar", "data"});
      job.ask("reslts", "out");
      job.ask("*.pt", "models");
      if (is_another_there) job.ask("logs", "logs");
      job.order.outcome = outcome;
      CHECK(job.run() == 1);
      CHECK(job.note(0) ==
            "reslts: nothing of that name in the job's directory, which holds logs, results (did "
            "you mean 'results'?)");
      CHECK(job.state(0) == ItemState::failed);
      CHECK((job.status.items[0].flags & k_item_final) != 0);
      CHECK((job.status.items[0].flags & k_item_users) != 0);
      CHECK(fs::exists(job.target / "logs/l") == is_another_there);
    }
  }
}

namespace {

// A job directory with staged data, of which the job then changes something.
struct StagedJob : StageOutJob {
  StagedJob() {
    for (const char* path : {"data/old", "data/sub/old", "env/bin/python", "in/deep/old", "f.tar"})
      write_file(directory / path, "staged");
    request.datasets.push_back({"/p/data.tar", ""});
    request.datasets.push_back({"/p/deep", "in/deep"});
    request.datasets.push_back({"/p/f.tar", ""});
    request.datasets.back().extract = Extract::no;
    request.venv = VenvItem{"/p/requirements.txt"};
    order.staged_ns.assign(4, pass_file_time());
  }
};

}  // namespace

TEST_CASE("a glob does not mean what was staged, as long as the job has not changed it") {
  StagedJob job;
  write_files(job.directory, {{"results/a", "1"}, {"x.tar", "1"}});
  job.ask("*", "all");
  job.ask("*.tar", "tars");
  job.ask("data", "named");
  job.ask("data/*", "named2");
  job.ask("*/old", "none");
  job.request.outputs[4].optional = true;
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target / "all") == Names{"results", "x.tar"});
  CHECK(names_in(job.target / "tars") == Names{"x.tar"});
  CHECK(names_in(job.target / "named") == Names{"old", "sub"});
  CHECK(names_in(job.target / "named2") == Names{"old", "sub"});
  CHECK(job.state(4) == ItemState::skipped);
  CHECK(job.note(0) == "left out as staged and unchanged: data, env, f.tar and 1 more");
}

TEST_CASE("of staged data that the job has changed, a glob means what it has changed or added") {
  for (const bool is_packed : {false, true}) {
    CAPTURE(is_packed);
    StagedJob job;
    write_files(job.directory, {{"data/new", "1"},
                                {"data/sub/old", "changed"},
                                {"env/lib/__pycache__/a.pyc", "compiled"},
                                {"in/beside", "1"}});
    fs::create_directory(job.directory / "data/empty");
    job.ask("*", is_packed ? "all.tar" : "all");
    REQUIRE(job.run() == 0);
    if (is_packed) {
      fs::create_directory(job.target / "all");
      REQUIRE(std::system(("tar -xf " + (job.target / "all.tar").string() + " -C " +
                           (job.target / "all").string())
                              .c_str()) == 0);
    }
    CHECK(names_in(job.target / "all") == Names{"data", "in"});
    CHECK(names_in(job.target / "all/data") == Names{"new", "sub"});
    CHECK(file_text(job.target / "all/data/sub/old") == "changed");
    CHECK(names_in(job.target / "all/in") == Names{"beside"});
    CHECK(job.note() ==
          "left out as staged and unchanged: env, f.tar; only what was changed or added since the "
          "staging: data, in");
  }
}

TEST_CASE("what was staged is delivered where it is not known since when it is there") {
  StagedJob job;
  job.order.staged_ns.clear();
  job.deliver("*", "all");
  CHECK(names_in(job.target / "all") == Names{"data", "env", "f.tar", "in"});
}

TEST_CASE("links: those that stay inside lead on, those that leave are refused") {
  StageOutJob job({{"run3/results/a", "1"}});
  write_file(job.target.parent_path() / "outside/secret", "s");
  fs::create_directory_symlink("run3", job.directory / "latest");
  fs::create_directory_symlink("latest/results", job.directory / "results");
  fs::create_directory_symlink("../outside", job.directory / "out");
  fs::create_directory_symlink(job.target.parent_path() / "outside", job.directory / "abs");
  job.ask("results", "one");
  job.ask("latest/results", "two/");
  job.ask("results/a", "three");
  job.ask("out", "four");
  job.ask("abs/secret", "five");
  job.ask("out/*", "six");
  CHECK(job.run() == 1);
  CHECK(names_in(job.target) == Names{"one", "three", "two"});
  CHECK(file_text(job.target / "two/results/a") == "1");
  const std::string outside = (job.target.parent_path() / "outside").string();
  const auto leads_to = [](const std::string& path) {
    return ": a link there leads out of the job directory, to " + path +
           ": only the link is kept, and what is there is not; let the job put results into "
           "$SLURM_TMPDIR itself";
  };
  CHECK(job.note(3) == "out" + leads_to(outside));
  CHECK(job.note(4) == "abs/secret" + leads_to(outside + "/secret"));
  CHECK(job.note(5) == "out/*" + leads_to(outside + "/*"));
}

TEST_CASE("when= against the outcome") {
  struct Row {
    When when;
    JobOutcome outcome;
    ItemState state;
  };
  using enum ItemState;
  for (const Row& row :
       {Row{When::always, JobOutcome::unknown, done}, Row{When::success, JobOutcome::success, done},
        Row{When::success, JobOutcome::failure, skipped},
        Row{When::success, JobOutcome::unknown, failed},
        Row{When::failure, JobOutcome::success, skipped},
        Row{When::failure, JobOutcome::failure, done},
        Row{When::failure, JobOutcome::unknown, failed}}) {
    StageOutJob job({{"a", "1"}});
    job.order.outcome = row.outcome;
    job.ask("a", "a").when = row.when;
    job.ask("missing", "b").when = row.when;
    CHECK(job.run() == (row.state == failed ? 1 : 0));
    CHECK(job.state(0) == row.state);
    CHECK(job.state(1) == skipped);
    CHECK(fs::exists(job.target / "a") == (row.state == done));
  }
}

TEST_CASE("an unknown pattern value fails the item and makes nothing") {
  StageOutJob job({{"a", "1"}});
  job.ask("a", "%A/");
  job.ask("a", "%j_%x/");
  job.order.job_name = "train";
  CHECK(job.run() == 1);
  CHECK(job.note(0) == "the value of %A is not known on this node");
  CHECK(names_in(job.target) == Names{"42_train"});
}

TEST_CASE("several nodes deliver side by side") {
  StageOutJob job({{"results/a", "1"}});
  job.order.node_count = 2;
  job.ask("results", "out");
  job.ask("results", "pack.tar");
  job.ask("results/a", "b.h5");
  REQUIRE(job.run() == 0);
  job.order.node = "n2";
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target) == Names{"b.h5", "out", "pack.n1.tar", "pack.n2.tar"});
  CHECK(names_in(job.target / "out") == Names{"n1", "n2"});
  CHECK(names_in(job.target / "b.h5/n1") == Names{"a"});
}

TEST_CASE("a target that may not be written: the cause and what to do") {
  StageOutJob job({{"results/a", "1"}, {"b", "1"}});
  fs::create_directory(job.target / "closed");
  fs::permissions(job.target / "closed", fs::perms(0500));
  job.ask("results", "closed");
  job.ask("results", "closed/sub");
  job.ask("b", "b");
  CHECK(job.run() == 1);
  CHECK(job.status.phase == WorkerPhase::failed);
  const std::string closed = job.target / "closed";
  CHECK(job.status.cause.starts_with(
      "stage-out of results to " + closed +
      " failed: 1 entry could not be delivered: a: cannot make a file in the target: "
      "Permission denied (and 1 more of --stage-out failed)\n"
      "Check that you may write to the target. The data are kept on this node"));
  CHECK(job.note(1) == "cannot make the directory " + closed + "/sub: Permission denied");
  CHECK(job.state(2) == ItemState::done);
  fs::permissions(closed, fs::perms(0700));
}
