// What a job has left that no output names, where an output is missing: it is held.
#include <doctest/doctest.h>

#include "common/os/wall_clock.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t number_of(ItemState state) { return static_cast<std::uint32_t>(state); }

// The times that a delivery learns of a staging whose only item is in that state.
std::vector<std::uint64_t> times_of(ItemState state) {
  WorkerStatus staging;
  staging.items.emplace_back().state = number_of(state);
  return staged_ns(staging);
}

}  // namespace

TEST_CASE("a result that has the name of a dataset that was not staged is the job's") {
  for (const ItemState state : {ItemState::failed, ItemState::skipped}) {
    StageOutJob job;
    job.request.datasets.push_back({"/p/ck", ""});
    job.request.datasets.back().optional = true;
    write_file(job.directory / "ck/1", "model");
    job.order.staged_ns = times_of(state);
    job.ask("chk", "o");
    CHECK(job.run() == 1);
    CHECK(job.note() ==
          "chk: nothing of that name in the job's directory, which holds ck (did you mean 'ck'?)");
  }
}

TEST_CASE("while the job runs, a glob means such a result too") {
  PushJob job;
  job.request.datasets.push_back({"/p/ck", ""});
  write_file(job.directory / "ck/1", "model");
  job.order.staged_ns = times_of(ItemState::failed);
  job.ask("*", "o");
  CHECK(job.run() == 0);
  CHECK(file_text(job.target / "o/ck/1") == "model");
}

TEST_CASE("of an item that is still staged, and of one of an earlier release, nothing is known") {
  for (const ItemState state : {ItemState::waiting, ItemState::working, ItemState::done})
    CHECK(times_of(state) == std::vector<std::uint64_t>{0});
}

TEST_CASE("what cannot be listed, or not be examined, may hold results") {
  StageOutJob job({{"run/results", "1"}, {"run/log", "1"}});
  fs::perms mode = fs::perms(0);
  SUBCASE("of a directory that no output names") { job.ask("reslts", "o"); }
  SUBCASE("of one above an output") {
    mode = fs::perms(0300);
    job.ask("run/reslts", "o");
    job.ask("run/log", "log");
  }
  fs::permissions(job.directory / "run", mode);
  CHECK(job.run() == 1);
  CHECK(job.state() == ItemState::failed);
  fs::permissions(job.directory / "run", fs::perms(0700));
}

TEST_CASE("beside a dataset whose glob matches every name, results are the job's") {
  for (const char* source : {"/d/*.tar", "/d/*", "/d/{a,b}.tar"}) {
    CAPTURE(std::string(source));
    StageOutJob job;
    job.request.datasets.push_back({source, ""});
    job.request.datasets.back().async = true;
    write_file(job.directory / "results/a", "1");
    job.order.staged_ns = {pass_file_time()};
    job.ask("reslts", "o");
    CHECK(job.run() == 1);
    CHECK(job.state() == ItemState::failed);
  }
}

TEST_CASE("what an async glob of few names has staged is not held, what was written later is") {
  for (const bool is_later : {false, true}) {
    StageOutJob job;
    job.request.datasets.push_back({"/d/shard-*.tar", ""});
    job.request.datasets.back().async = true;
    if (!is_later) write_file(job.directory / "shard-1/a", "1");
    job.order.staged_ns = {pass_file_time()};
    if (is_later) write_file(job.directory / "shard-1/a", "1");
    job.ask("reslts", "o");
    CHECK(job.run() == (is_later ? 1 : 0));
  }
}

TEST_CASE("a glob for every name says nothing about the place of another dataset") {
  StageOutJob job;
  job.request.datasets.push_back({"/d/*", ""});
  job.request.datasets.back().async = true;
  job.request.datasets.push_back({"/p/data", ""});
  write_file(job.directory / "data/a", "staged");
  job.order.staged_ns = {pass_file_time(), pass_file_time()};
  job.ask("reslts", "o");
  CHECK(job.run() == 0);
}

TEST_CASE("what a glob has staged is known by its names, where staging has left them") {
  for (const char* source : {"/d/*.tar", "/d/*", "/d/shard-{1,7}", "/d/shard-*"}) {
    CAPTURE(std::string(source));
    StageOutJob job;
    job.request.datasets.push_back({source, ""});
    job.request.datasets.back().async = true;
    write_files(job.directory, {{".nodestage-placed", std::string("shard-1\0", 8)},
                                {"shard-1/a", "staged"},
                                {"shard-7/a", "a result, older than the end of the staging"}});
    job.order.staged_ns = {pass_file_time()};
    job.ask("reslts", "o");
    CHECK(job.run() == 1);
    CHECK(job.note() == "reslts: nothing of that name in the job's directory, which holds shard-7");
  }
}

TEST_CASE("beside such a glob, nothing is missing of a result, and a run is seen") {
  for (const char* source : {"/d/*.tar", "/d/*"}) {
    StageOutJob job;
    job.order.ran = false;
    job.request.datasets.push_back({source, ""});
    write_file(job.directory / ".nodestage-placed", std::string("a\0", 2));
    write_file(job.directory / "a/a", "staged");
    job.order.staged_ns = {pass_file_time()};
    fs::create_directories(job.directory / "results/empty");
    job.ask("r*", "o");
    CHECK(job.run() == 0);
    CHECK(job.state() == ItemState::done);
    CHECK(job.note().empty());
    CHECK(names_in(job.target / "o/results") == std::vector<std::string>{"empty"});
  }
}

TEST_CASE("the list of such names may be anything") {
  StageOutJob job;
  job.request.datasets.push_back({"/d/shard-*", ""});
  write_file(job.directory / "shard-1/a", "staged");
  job.order.staged_ns = {pass_file_time()};
  job.ask("reslts", "o");
  const fs::path list = job.directory / ".nodestage-placed";
  SUBCASE("a link") { fs::create_symlink("/etc/passwd", list); }
  SUBCASE("a FIFO") { REQUIRE(mkfifo(list.c_str(), 0600) == 0); }
  SUBCASE("a directory") { fs::create_directory(list); }
  CHECK(job.run() == 0);
}

TEST_CASE("thousands of names that braces stand for are not all compared with what is left") {
  StageOutJob job({{"x0000.pt", "1"}});
  for (unsigned i = 0; i < 1000; ++i)
    write_file(job.directory / "left" / ("quite-another-name-" + std::to_string(i)), "");
  job.ask("x{0000..9999}.pt", "o");
  CHECK(job.run() == 1);
  CHECK(file_text(job.target / "o/x0000.pt") == "1");
}

TEST_CASE("a glob that matches only what was staged says so") {
  const std::string only_staged =
      "d*: matches only what was staged and is unchanged (data) in the job's directory";
  StageOutJob job({{"data/a", "staged"}});
  job.request.datasets.push_back({"/p/data", ""});
  job.order.staged_ns = {pass_file_time()};
  job.ask("d*", "o");
  CHECK(job.run() == 0);
  CHECK(job.note() == only_staged);
  job.request.outputs[0].optional = true;
  CHECK(job.run() == 0);
  CHECK(job.note() == only_staged);
}
