// The key prune: what the job removes after its delivery is removed in the target, too, and nothing
// else ever is.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

// Delivers three checkpoints, of which the job then removes the first.
struct PruneJob : PushJob {
  explicit PruneJob(const std::string& source = "results", const std::string& to = "out")
      : PushJob({{"results/step-1/model", "1"},
                 {"results/step-1/meta/a", "1"},
                 {"results/step-2/model", "2"},
                 {"results/log", "l"}}) {
    ask(source, to).prune = true;
    order.outcome = JobOutcome::success;
    fs::create_directory(results / "step-1/empty");
    fs::create_symlink("step-1", results / "best");
    REQUIRE(run() == 0);
    CHECK(pruned() == 0);
  }

  void remove_first() const {
    fs::remove_all(results / "step-1");
    fs::remove(results / "best");
  }
  [[nodiscard]] std::uint64_t pruned() const { return status.items.at(0).pruned; }

  const fs::path results = directory / "results";
  const fs::path out = target / "out";
};

}  // namespace

TEST_CASE("prune: what the job has removed goes from the target, with its directories") {
  for (const char* source :
       {"results", "results/", "results/*", "results/{step-*,[bl]*}", "results/{*,.*}"}) {
    for (const bool is_end : {false, true}) {
      CAPTURE(source);
      CAPTURE(is_end);
      PruneJob job(source, "out/");
      const fs::path out = std::string(source).starts_with("results/") && source[8] != '\0'
                               ? job.out
                               : job.out / "results";
      REQUIRE(names_in(out) == Names{"best", "log", "step-1", "step-2"});
      const auto time = lstat_of(out / "step-2").st_mtim.tv_nsec;
      job.remove_first();
      fs::rename(job.results / "step-2/model", job.results / "step-2/final");
      REQUIRE((is_end ? job.run_end() : job.run()) == 0);
      CHECK(names_in(out) == Names{"log", "step-2"});
      CHECK(names_in(out / "step-2") == Names{"final"});
      CHECK(job.pruned() == 4);
      CHECK(describe(out) == describe(job.results));
      CHECK(lstat_of(out / "step-2").st_mtim.tv_nsec != time);
      REQUIRE(job.run_end() == 0);
      CHECK(job.pruned() == 4);
    }
  }
}

TEST_CASE("prune keeps what may be on its way elsewhere, or all that is left") {
  PruneJob job;
  SUBCASE("what has its size in an output that is not delivered, and may have been moved there") {
    job.ask("final", "final").when = When::success;
    fs::create_directory(job.directory / "final");
    fs::rename(job.results / "step-1/model", job.directory / "final/best");
    job.remove_first();
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.out / "step-1") == Names{"meta", "model"});
    REQUIRE(job.run_end() == 0);
    CHECK(names_in(job.out) == Names{"log", "step-2"});
  }
  SUBCASE("at the end of a job that has failed or was killed") {
    job.order.outcome = JobOutcome::failure;
    job.remove_first();
    REQUIRE(job.run_end() == 0);
    CHECK(names_in(job.out) == Names{"best", "log", "step-1", "step-2"});
  }
  SUBCASE("of a directory in which the job has removed something just now") {
    job.rules.removed = std::chrono::hours(1);
    job.remove_first();
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.out) == Names{"best", "log", "step-1", "step-2"});
    job.rules.removed = std::chrono::milliseconds(0);
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.out) == Names{"log", "step-2"});
  }
  SUBCASE("a directory that a killed worker has left unfinished gets its mode back") {
    write_file(job.out / "step-1/of another node", "n");
    fs::permissions(job.out / "step-1", fs::perms(01700));
    job.remove_first();
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.out / "step-1") == Names{"of another node"});
    CHECK((lstat_of(job.out / "step-1").st_mode & 07777) == 0755);
  }
}

TEST_CASE("without prune, and in results that are held, nothing goes from the target") {
  PruneJob job;
  job.remove_first();
  const auto before = describe(job.out);
  job.order.tries = 1;
  REQUIRE(job.run_end() == 0);
  CHECK(describe(job.out) == before);
  job.order.tries = 0;
  job.request.outputs[0].prune = false;
  REQUIRE(job.run_end() == 0);
  CHECK(describe(job.out) == before);
}

TEST_CASE("prune leaves what is not exactly as this job has delivered it") {
  using Change = std::function<void(const fs::path&)>;
  const std::vector<Change> changes = {
      [](const fs::path& file) { write_file(file, "longer"); },
      [](const fs::path& file) { set_mtime(file, 1000, 0); },
      [](const fs::path& file) {  // another file that looks the same
        const auto time = lstat_of(file).st_mtim;
        fs::rename(file, file.string() + ".old");
        write_file(file, "1");
        set_mtime(file, time.tv_sec, time.tv_nsec);
      },
      [](const fs::path& file) {
        fs::remove(file);
        fs::create_symlink("/etc/passwd", file);
      },
      [](const fs::path& file) {
        fs::remove(file);
        fs::create_directory(file);
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    PruneJob job;
    changes[i](job.out / "step-1/model");
    const mode_t mode = lstat_of(job.out / "step-1").st_mode;
    const auto time = lstat_of(job.out / "step-1").st_mtim;
    job.remove_first();
    REQUIRE(job.run() == 0);
    CHECK(lstat_of(job.out / "step-1/model").st_mode != 0);
    CHECK_FALSE(fs::exists(job.out / "step-1/meta"));
    CHECK(job.pruned() == 2);
    CHECK(lstat_of(job.out / "step-1").st_mode == mode);
    CHECK(lstat_of(job.out / "step-1").st_mtim.tv_nsec == time.tv_nsec);
  }
}

TEST_CASE("prune leaves what others have in the target, and follows no link there") {
  PruneJob job;
  const fs::path elsewhere = job.target / "elsewhere";
  write_file(job.out / "step-1/notes", "mine");
  write_file(job.out / "of-another-job/model", "1");
  fs::rename(job.out / "step-1/meta", elsewhere);
  fs::create_directory_symlink(elsewhere, job.out / "step-1/meta");
  job.remove_first();
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.out) == Names{"log", "of-another-job", "step-1", "step-2"});
  CHECK(names_in(job.out / "step-1") == Names{"meta", "notes"});
  CHECK(names_in(elsewhere) == Names{"a"});
}

TEST_CASE("prune keeps all where the source is gone, empty, or not read in full") {
  using Loss = std::function<void(PruneJob&)>;
  const std::vector<Loss> losses = {
      [](PruneJob& job) { fs::remove_all(job.results); },
      [](PruneJob& job) {
        fs::remove_all(job.results);
        fs::create_directories(job.results / "step-1");
      },
      [](PruneJob& job) {  // another file, and nothing of what was delivered
        fs::remove_all(job.results);
        write_file(job.results / "core", "c");
      },
      [](PruneJob& job) {
        job.remove_first();
        fs::create_directory(job.results / "locked");
        fs::create_directory(job.out / "locked");
        fs::permissions(job.out / "locked", fs::perms(0));
        write_file(job.results / "locked/x", "x");
      }};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (const bool is_end : {false, true}) {
      if (i == 2 && !is_end) continue;  // a running job that keeps one checkpoint
      CAPTURE(i);
      CAPTURE(is_end);
      PruneJob job;
      losses[i](job);
      is_end ? job.run_end() : job.run();
      fs::permissions(job.out, fs::perms(0755));
      for (const char* name : {"step-1/model", "step-1/meta/a", "best"})
        CHECK(lstat_of(job.out / name).st_mode != 0);
      CHECK(job.pruned() == 0);
    }
  }
}

TEST_CASE("prune waits for what is new and not whole yet, and for all other outputs") {
  PruneJob job;
  job.remove_first();
  const std::string late = job.results / "step-3";
  const Fd writer(::open(late.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(::write(writer.get(), "\0003", 2) == 2);  // no text, which would be a log
  job.run();
  REQUIRE(job.is_unsettled());
  CHECK(fs::exists(job.out / "step-1/model"));
  job.rules.log = SettleRules::Time(0);  // it was begun long ago
  job.ask("results/log", "taken/log");
  write_file(job.target / "taken", "a file");
  CHECK(job.run() == 1);
  CHECK(fs::exists(job.out / "step-1/model"));
  job.request.outputs.pop_back();
  job.run();
  REQUIRE(job.is_unsettled());
  CHECK_FALSE(fs::exists(job.out / "step-1"));
  CHECK(job.pruned() == 3);
}

TEST_CASE("what was pruned and is there again is delivered again") {
  PruneJob job;
  fs::rename(job.results / "step-1", job.directory / "aside");
  REQUIRE(job.run() == 0);
  CHECK_FALSE(fs::exists(job.out / "step-1"));
  fs::rename(job.directory / "aside", job.results / "step-1");
  REQUIRE(job.run() == 0);
  CHECK(describe(job.out) == describe(job.results));
}

TEST_CASE("prune: of two outputs with one target, neither removes what the other has delivered") {
  PruneJob job;
  write_file(job.directory / "other/step-1/model", "other");
  job.ask("other", "out").prune = true;
  REQUIRE(job.run() == 0);
  job.remove_first();
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.out / "step-1/model") == "other");
  CHECK_FALSE(fs::exists(job.out / "step-1/meta"));
}

TEST_CASE("prune leaves what another output has under that name, wherever its target begins") {
  const std::vector<std::pair<std::string, std::string>> others = {{"x", "out/step-1"},
                                                                   {"x/model", "out/step-1/model"},
                                                                   {"x/m*", "out/step-1"},
                                                                   {"x/model", "out/step-1/"},
                                                                   {"outer", "."},
                                                                   {"outer/*", "."},
                                                                   {"x/{model,model}", "link"},
                                                                   {"x/links", "out/step-1"}};
  for (const auto& row : others) {
    for (const bool is_end : {false, true}) {
      const std::string& source = row.first;
      const std::string& to = row.second;
      CAPTURE(source);
      CAPTURE(to);
      CAPTURE(is_end);
      PushJob job({{"ck/step-1/model", "1"}, {"ck/step-2/model", "2"}, {"x/model", "1"}});
      fs::create_directories(job.directory / "x/links");
      fs::create_directories(job.directory / "outer/out/step-1");
      write_file(job.directory / "outer/out/step-1/model", "1");
      for (const char* name : {"ck/step-1/model", "x/model", "outer/out/step-1/model"})
        set_mtime(job.directory / name, 1000, 0);
      for (const char* name : {"ck/step-1/model.link", "x/links/model.link"})
        fs::create_symlink(job.directory / "x/model", job.directory / name);
      if (to == "link") fs::create_directories(job.target / "out/step-1");
      fs::create_directory_symlink("out/step-1", job.target / "link");
      job.order.outcome = JobOutcome::success;
      const std::string kept = source == "x/links" ? "model.link" : "model";
      job.ask(source, to);
      job.ask("ck", "out").prune = true;
      REQUIRE(job.run() == 0);
      fs::remove_all(job.directory / "ck/step-1");
      REQUIRE((is_end ? job.run_end() : job.run()) == 0);
      CHECK(lstat_of(job.target / "out/step-1" / kept).st_mode != 0);
      REQUIRE(job.run_end() == 0);
      CHECK(lstat_of(job.target / "out/step-1" / kept).st_mode != 0);
    }
  }
}

TEST_CASE("prune: what two outputs with the key have under one name goes when both have lost it") {
  for (const bool is_first : {false, true}) {
    CAPTURE(is_first);
    PushJob job({{"a/1", "1"}, {"a/2", "2"}, {"b/1", "1"}, {"b/3", "3"}});
    job.ask("a", "out").prune = true;
    job.ask("b", "out").prune = true;
    REQUIRE(job.run() == 0);
    fs::remove(job.directory / (is_first ? "a/1" : "b/1"));
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.target / "out") == Names{"1", "2", "3"});
    fs::remove(job.directory / (is_first ? "b/1" : "a/1"));
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.target / "out") == Names{"2", "3"});
  }
}

TEST_CASE("prune leaves what the job has made again since its directory was read") {
  for (const char* source : {"results", "results/*"}) {
    CAPTURE(source);
    PruneJob job(source, "out");
    job.ask("other", "other");
    const std::string late = job.directory / "other/late";
    write_file(late, "");
    const Fd writer(::open(late.c_str(), O_WRONLY | O_CLOEXEC));
    job.remove_first();
    job.on_wait = [&job] { write_file(job.results / "step-1/model", "new"); };
    job.run();
    REQUIRE_FALSE(job.waits.empty());
    CHECK(names_in(job.out) == Names{"log", "step-1", "step-2"});
    CHECK(names_in(job.out / "step-1") == Names{"model"});
    CHECK(job.pruned() == 2);
  }
}

TEST_CASE("prune keeps all of a source that vanishes between two looks") {
  PruneJob job;
  const std::string late = job.results / "log";
  const Fd writer(::open(late.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(::write(writer.get(), "\0003", 2) == 2);
  job.remove_first();
  job.on_wait = [&job] { fs::remove_all(job.results); };
  job.run();
  REQUIRE_FALSE(job.waits.empty());
  CHECK(names_in(job.out) == Names{"best", "log", "step-1", "step-2"});
}
