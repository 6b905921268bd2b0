// Results while the job runs: what has changed and is whole, and never a part of a file.
#include <doctest/doctest.h>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/wire/node_report.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

TEST_CASE("the first push brings all, the next one what has changed since") {
  PushJob job({{"results/a", "1"}, {"results/sub/b", "2"}});
  fs::create_symlink("a", job.directory / "results/l");
  set_mtime(job.directory / "results/l", 1000000000, 0);
  ::usleep(20'000);  // or the link, which could be another one by now, comes once more
  job.deliver("results", "out");
  CHECK(job.files() == 3);
  CHECK(job.status.phase == WorkerPhase::done);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  const ino_t a = inode_of(job.target / "out/a");
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
  CHECK(job.status.items[0].bytes_written == 0);
  CHECK(delivery_lines(job.status)[0].ends_with("up to date: 3 files, 2 B in 1 delivery"));
  write_files(job.directory, {{"results/sub/b", "changed"}, {"results/new", "3"}});
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 2);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  CHECK(inode_of(job.target / "out/a") == a);
  CHECK(has(delivery_lines(job.status)[0], ": 2 files, 8 B in "));
  CHECK(delivery_lines(job.status)[0].ends_with("; up to date: 4 files, 9 B in 2 deliveries"));
  REQUIRE(job.run_end() == 0);
  CHECK(delivery_lines(job.status)[0].ends_with("up to date: 4 files, 9 B in 2 deliveries"));
  CHECK(report_item(job.status.items[0], 0, 1).files == 4);
  CHECK(report_item(job.status.items[0], 0, 1).bytes_written == 9);
}

TEST_CASE("one file, a glob, and the directory itself") {
  PushJob job({{"results/a", "1"}});
  job.ask("results/a", "named");
  job.ask("res*/*", "matches");
  job.ask("results", "inside/");
  REQUIRE(job.run() == 0);
  check_files(job.target, {{"named", "1"}, {"matches/a", "1"}, {"inside/results/a", "1"}});
  REQUIRE(job.run() == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(job.files(i) == 0);
  write_file(job.directory / "results/a", "22");
  REQUIRE(job.run() == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(job.files(i) == 1);
}

TEST_CASE("holes, hard links, and modes arrive as at the end") {
  PushJob job;
  const fs::path results = job.directory / "results";
  write_file(results / "a", "x");
  fs::create_hard_link(results / "a", results / "b");
  fs::permissions(results / "a", fs::perms(0));
  write_file(results / "holes", "x");
  fs::resize_file(results / "holes", 64 << 20);
  job.deliver("results", "out");
  CHECK(inode_of(job.target / "out/a") == inode_of(job.target / "out/b"));
  CHECK((lstat_of(job.target / "out/a").st_mode & 07777) == 0);
  CHECK(lstat_of(job.target / "out/holes").st_size == 64 << 20);
  CHECK(lstat_of(job.target / "out/holes").st_blocks < 1000);
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
}

TEST_CASE("names of one file: not the first one's copy for what was changed since") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);  // each file waits
  const fs::path results = job.directory / "results";
  write_file(results / "a", "old");
  fs::create_hard_link(results / "a", results / "c");
  write_file(results / "b", "x");
  job.on_wait = [&] {
    if (job.waits.size() == 2) write_file(results / "a", "newer");  // while it waits for b
  };
  job.deliver("results", "out");
  check_files(job.target, {{"out/a", "old"}, {"out/c", "newer"}});
  job.on_wait = {};
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "out/a") == "newer");
}

TEST_CASE("a link that was changed within the tick comes once more") {
  PushJob job;
  fs::create_directory(job.directory / "results");
  fs::create_symlink("a", job.directory / "results/link");
  job.ask("results", "out");
  job.rules.tick = std::chrono::hours(1);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(job.run() == 0);
    CHECK(job.files() == 1);
  }
  job.rules.tick = SettleRules::Time(0);
  REQUIRE(job.run() == 0);
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
}

TEST_CASE("what vanishes meanwhile is no fault: a file, a directory") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);
  const fs::path results = job.directory / "results";
  write_files(results, {{"a", "1"}, {"b", "1"}, {"c/d", "1"}});
  job.on_wait = [&] {
    fs::remove(results / "b");
    fs::remove_all(results / "c");
  };
  job.ask("results", "out");
  CHECK(job.run() == 0);
  CHECK(job.state() == ItemState::done);
  CHECK(job.note().empty());
  CHECK(names_in(job.target / "out") == Names{"a"});
}

TEST_CASE("outputs by name, as users type them, and by number") {
  for (const std::string typed : {"run/two", "run/two/", "./run//two", "$SLURM_TMPDIR/run/two",
                                  "${SLURM_TMPDIR}/run/two/", "absolute", "number"}) {
    CAPTURE(typed);
    PushJob job;
    for (const char* name : {"one", "two", "two2"}) {
      write_file(job.directory / "run" / name / "a", "1");
      job.ask(std::string("run/") + name, name);
    }
    job.order.push_all = false;
    if (typed == "number") {
      job.order.push_items = 2;
    } else {
      job.order.push_names = {typed == "absolute" ? (job.directory / "run/two").string() : typed,
                              "unknown"};
    }
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.target) == Names{"two"});
    CHECK(job.state(0) == ItemState::skipped);
    CHECK(job.note(0).empty());
    CHECK(job.state(1) == ItemState::done);
  }
}

TEST_CASE("what cannot be delivered early, or is not there yet, is skipped and says why") {
  PushJob job({{"results/a.tar", "1"}});
  job.ask("results", "when").when = When::success;
  job.ask("results", "all.tar.zst");
  job.ask("results/*.tar", "all.tar");
  job.ask("later", "later");
  CHECK(job.run() == 0);
  CHECK(job.status.phase == WorkerPhase::done);
  for (std::size_t i = 0; i < 4; ++i) CHECK(job.state(i) == ItemState::skipped);
  CHECK(job.note(0) == "when=success is decided at the end of the job");
  CHECK(job.note(1) == "its target is an archive, which is written once, at the end of the job");
  CHECK(job.note(2) == job.note(1));
  CHECK(job.note(3) == "later: nothing of that name in the job's directory yet");
  CHECK(fs::is_empty(job.target));
}

TEST_CASE("while the job runs, a glob means of staged data what the job has changed") {
  PushJob job;
  for (const char* path : {"data/old", "data/sub/old", "late/old"})
    write_file(job.directory / path, "staged");
  job.request.datasets.push_back({"/p/data.tar", ""});
  job.request.datasets.push_back({"/p/late.tar", ""});
  job.order.staged_ns = {pass_file_time(), 0};  // the second one was not complete yet
  job.ask("*", "out");
  CHECK(job.run() == 0);
  CHECK(job.state() == ItemState::skipped);
  CHECK(fs::is_empty(job.target));
  write_files(job.directory, {{"results/a", "1"}, {"data/sub/new", "1"}});
  for (int i = 0; i < 2; ++i) {
    REQUIRE(job.run() == 0);
    CHECK(names_in(job.target / "out") == Names{"data", "results"});
    CHECK(names_in(job.target / "out/data") == Names{"sub"});
    CHECK(names_in(job.target / "out/data/sub") == Names{"new"});
    CHECK(job.files() == (i == 0 ? 2 : 0));
  }
}

TEST_CASE("a request that cannot be read is not said to be kept on the node") {
  PushJob job;
  const Fd status_fd(::open((job.target / "status").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  dup2(status_fd.get(), k_worker_status_fd);
  CHECK(refuse_delivery(words_of(job.order), Error{0, "not JSON"}) == 1);
  close(k_worker_status_fd);
  const auto status = read_worker_status(status_fd.get());
  REQUIRE(status);
  CHECK(status->cause ==
        "the request cannot be read: not JSON\n"
        "It is tried again the next time, and at the end of the job.");
}
