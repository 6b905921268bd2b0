#include <doctest/doctest.h>

#include "common/os/wall_clock.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

struct RecoverJob : StageOutJob {
  explicit RecoverJob(FileTexts files = {}) : StageOutJob(files) {
    order.task = WorkerTask::recover;
    order.recover_to = (target / "new/back").string();
  }
  [[nodiscard]] fs::path back() const { return target / "new/back"; }
};

}  // namespace

TEST_CASE("each source below the directory as it was asked for, unpacked, whatever its target") {
  RecoverJob job(
      {{"run/results/a", "1"}, {"run/part-1", "2"}, {"run/part-2", "3"}, {"one.txt", "4"}});
  job.ask("run/results/", "out.tar.zst").pack = true;
  job.ask("run/part-*", "/nowhere/x");
  job.ask("one.txt", "%A/%q");
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.back() / "run/results/a") == "1");
  CHECK(names_in(job.back() / "run") == Names{"part-1", "part-2", "results"});
  CHECK(file_text(job.back() / "one.txt") == "4");
  CHECK(names_in(job.target) == Names{"new"});
}

TEST_CASE("the total of what is recovered: files at any depth, and nothing twice") {
  RecoverJob job(
      {{"run/results/deep/a", std::string(1000, 'x')}, {"run/results/b", std::string(200, 'x')}});
  fs::create_symlink("b", job.directory / "run/results/link");
  write_file(job.directory / "one.txt", "1234");
  job.ask("run/results", "x");
  job.ask("one.txt", "x");
  REQUIRE(job.run() == 0);
  CHECK(job.status.items.at(0).bytes_total == 1200);
  CHECK(job.status.items.at(0).bytes_read == 1200);
  CHECK(job.status.items.at(1).bytes_total == 4);
}

TEST_CASE("what was delivered, excluded or is missing is left out; what is not known is not") {
  RecoverJob job;
  for (const char* name : {"a", "b", "c"}) write_file(job.directory / name, name);
  job.ask("a", "x");
  job.ask("b", "x").when = When::failure;
  job.ask("c", "x");
  job.ask("missing", "x");
  job.order.delivered = 1;
  REQUIRE(job.run() == 0);
  CHECK(job.note(0) == "was delivered before");
  CHECK(names_in(job.back()) == Names{"c"});
  job.order.outcome = JobOutcome::unknown;
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.back()) == Names{"b", "c"});
}

TEST_CASE(
    "of an output that lies outside of the tree, the link arrives, so that the rest is not stuck") {
  RecoverJob job({{"run/a", "1"}});
  fs::create_symlink("/project/x", job.directory / "run/results");
  fs::create_symlink("../../project", job.directory / "p");
  job.ask("run/results/", "x");
  job.ask("p/x/y", "x");
  job.ask("run/a", "x");
  REQUIRE(job.run() == 0);
  check_links(job.back(), {{"run/results", "/project/x"}, {"p", "../../project"}});
  CHECK(file_text(job.back() / "run/a") == "1");
  CHECK(job.note(0) == "run/results: leads out of the job's directory, and was copied as a link");
}

TEST_CASE("links between what is recovered lead to what was recovered") {
  RecoverJob job({{"run/m-5", "5"}, {"other/m-6", "6"}});
  fs::create_symlink(job.directory / "run/m-5", job.directory / "run/m-latest");
  fs::create_symlink(job.directory / "other/m-6", job.directory / "run/m-6");
  fs::create_symlink(job.directory / "other/m-6", job.directory / "other/m-7");
  job.deliver("*/m-*", "x");
  check_links(job.back(),
              {{"run/m-latest", "m-5"}, {"run/m-6", "../other/m-6"}, {"other/m-7", "m-6"}});
}

TEST_CASE("where a source is missing, all that no output names comes back at its own path") {
  RecoverJob job({{"run/reslts/a", "1"}, {"run/kept/b", "2"}, {"data/old", "staged"}});
  job.request.datasets.push_back({"/p/data.tar", ""});
  job.order.staged_ns = {pass_file_time()};
  write_file(job.directory / "data/new", "3");
  job.ask("run/results", "x");
  job.ask("run/kept", "x");
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.back() / "run") == Names{"kept", "reslts"});
  CHECK(names_in(job.back() / "data") == Names{"new"});
}

TEST_CASE(
    "what is there is not replaced: the same content counts as recovered, another is a fault") {
  RecoverJob job({{"r/same", "1"}, {"r/other", "2"}, {"r/new", "3"}});
  fs::create_symlink("same", job.directory / "r/link");
  fs::create_symlink("same", job.directory / "r/elsewhere");
  fs::create_hard_link(job.directory / "r/new", job.directory / "r/twin");
  write_files(job.back(), {{"r/same", "1"}, {"r/other", "x"}, {"r/twin", "3"}});
  fs::create_symlink("same", job.back() / "r/link");
  fs::create_symlink("new", job.back() / "r/elsewhere");
  job.ask("r", "x");
  REQUIRE(job.run() == 1);
  CHECK(
      job.note() ==
      "2 entries could not be delivered: r/elsewhere: something else has that name in the target; "
      "r/other: something else has that name in the target");
  CHECK(file_text(job.back() / "r/other") == "x");
  CHECK(fs::read_symlink(job.back() / "r/elsewhere") == "new");
  CHECK(file_text(job.back() / "r/new") == "3");
  CHECK(leftovers(job.back()).empty());
  fs::remove(job.back() / "r/other");
  fs::remove(job.back() / "r/elsewhere");
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.back() / "r/other") == "2");
  REQUIRE(job.run() == 0);
}

TEST_CASE("sources of one job that overlap are recovered") {
  RecoverJob job({{"data/m-5", "5"}, {"run/a", "1"}});
  fs::create_symlink("../data/m-5", job.directory / "run/best");
  fs::create_symlink("../data", job.directory / "run/all");
  job.ask("run", "x");
  job.ask("*", "x");
  job.ask("run/best", "x");
  REQUIRE(job.run() == 0);
  check_files(job.back(), {{"run/best", "5"}, {"run/all/m-5", "5"}, {"data/m-5", "5"}});
}

TEST_CASE("a link that a glob has brought gives way to the output that names it, also once more") {
  RecoverJob job({{"c5/m", "1"}});
  fs::create_symlink("c5", job.directory / "latest");
  job.ask("*", "x");
  job.ask("latest", "x");
  for (int i = 0; i < 2; ++i) {
    REQUIRE(job.run() == 0);
    CHECK(!fs::is_symlink(job.back() / "latest"));
    check_files(job.back(), {{"c5/m", "1"}, {"latest/m", "1"}});
  }
}

TEST_CASE("a link that was there before stays, and so do the results") {
  RecoverJob job({{"c5/m", "1"}});
  fs::create_symlink("c5", job.directory / "latest");
  write_files(job.back(), {{"c5/m", "1"}});
  fs::create_symlink("c5", job.back() / "latest");
  job.ask("latest", "x");
  CHECK(job.run() == 1);
  CHECK(job.note().find("latest: is a directory here, and a link in the target") !=
        std::string::npos);
  CHECK(fs::is_symlink(job.back() / "latest"));
}

TEST_CASE("nothing is recovered into what is held") {
  RecoverJob job({{"r/a", "1"}});
  job.order.recover_to = (job.directory / "r/back").string();
  job.ask("r", "x");
  CHECK(job.run() == 1);
  CHECK(job.note() == "the target " + job.order.recover_to +
                          " lies in the job's own directory, which is removed when all of it is "
                          "recovered: name a directory elsewhere");
  CHECK(names_in(job.directory / "r") == Names{"a"});
}

TEST_CASE("a directory that cannot be written: the cause, and the data stay") {
  RecoverJob job({{"a", "1"}});
  job.ask("a", "x");
  fs::permissions(job.target, fs::perms(0500));
  CHECK(job.run() == 1);
  CHECK(job.status.cause.starts_with("recovery of a to " + job.back().string() + "/a failed: "));
  CHECK(job.status.cause.find("are still kept") != std::string::npos);
  fs::permissions(job.target, fs::perms(0700));
}

TEST_CASE("a further try delivers what is left and nothing twice") {
  StageOutJob job({{"a", "1"}, {"b", "2"}});
  job.ask("a", "a");
  job.ask("b", "b");
  job.order.delivered = 1;
  job.order.tries = 1;
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target) == Names{"b"});
  CHECK(job.state(0) == ItemState::skipped);
}

TEST_CASE("a further try removes what a killed worker of the same run and node has left") {
  StageOutJob job({{"tree/sub/a", "1"}});
  const std::string own = pending_names(job.order).prefix + "01234567.tmp";
  DeliveryOrder other = job.order;
  other.node = "n2";
  const std::string others = pending_names(other).prefix + "01234567.tmp";
  for (const char* place : {"", "sub"}) {
    write_files(job.target / place, {{own, "half"}, {others, "half"}});
  }
  job.ask("tree", job.target.string());
  job.ask("tree", (job.target / "pack.tar").string());
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target / "sub") == Names{others, own, "a"});  // the first try looks for none
  job.order.tries = 1;
  REQUIRE(job.run() == 0);
  CHECK(names_in(job.target / "sub") == Names{others, "a"});
  CHECK(names_in(job.target) == Names{others, "pack.tar", "sub"});
}

namespace {

// A try of what is held since a time that is far before, or after, all that is in the target.
struct HeldJob : StageOutJob {
  explicit HeldJob(FileTexts files) : StageOutJob(files) { order.tries = 1; }
  int run_held(std::uint64_t since) {
    order.held_since = since;
    return run();
  }
  static constexpr std::uint64_t k_long_ago = 1;
  static constexpr std::uint64_t k_later = 4'000'000'000;
};

}  // namespace

TEST_CASE("a further try replaces nothing that was changed in the target since it is held") {
  HeldJob job({{"r/latest", "OLD"}, {"r/sub/f", "5"}, {"one", "OLD"}});
  fs::create_symlink("old", job.directory / "r/link");
  write_files(job.target, {{"r/latest", "NEW"}, {"single", "NEWER"}, {"a.tar", "another archive"}});
  fs::create_symlink("new", job.target / "r/link");
  job.ask("r", "r");
  job.ask("one", "single");
  job.ask("r", "a.tar");
  CHECK(job.run_held(HeldJob::k_long_ago) == 1);
  check_files(job.target, {{"r/latest", "NEW"}, {"single", "NEWER"}, {"a.tar", "another archive"}});
  CHECK(fs::read_symlink(job.target / "r/link") == "new");
  CHECK(file_text(job.target / "r/sub/f") == "5");
  CHECK(leftovers(job.target).empty());
  for (std::size_t item = 0; item < 3; ++item) {
    CAPTURE(item);
    CHECK(job.state(item) == ItemState::failed);
    CHECK((job.status.items.at(item).flags & k_item_final) == 0);
    CHECK((job.status.items.at(item).flags & k_item_users) != 0);
    CHECK(job.note(item).find("something newer has that name in the target") != std::string::npos);
  }
  CHECK(job.note(0).find("latest: ") != std::string::npos);
  CHECK(job.note(0).find("link: ") != std::string::npos);
  CHECK(job.note(1).find("single: ") != std::string::npos);
  // Removed, as the note says.
  for (const char* name : {"r/latest", "r/link", "single", "a.tar"}) fs::remove(job.target / name);
  REQUIRE(job.run_held(HeldJob::k_long_ago) == 0);
  check_files(job.target, {{"r/latest", "OLD"}, {"r/sub/f", "5"}, {"single", "OLD"}});
}

TEST_CASE("a further try replaces what is older than what is held, and what it has delivered") {
  HeldJob job({{"r/latest", "new"}, {"r/same", "same"}, {"one", "new"}});
  fs::create_symlink("new", job.directory / "r/link");
  fs::create_hard_link(job.directory / "r/latest", job.directory / "r/too");
  write_files(job.target, {{"r/latest", "old"}, {"single", "older"}, {"a.tar", "old"}});
  fs::create_symlink("old", job.target / "r/link");
  job.ask("r", "r");
  job.ask("one", "single");
  job.ask("r", "a.tar");
  REQUIRE(job.run_held(HeldJob::k_later) == 0);
  const auto delivered = [&] {
    check_files(job.target, {{"r/latest", "new"}, {"r/same", "same"}, {"single", "new"}});
    CHECK(fs::read_symlink(job.target / "r/link") == "new");
    CHECK(inode_of(job.target / "r/latest") == inode_of(job.target / "r/too"));
    CHECK(file_text(job.target / "a.tar").size() > 512);
  };
  delivered();
  // Since then only by the earlier try, and one file by others, with the same content.
  set_mtime(job.target / "r/same", 1'000'000'000, 0);
  REQUIRE(job.run_held(HeldJob::k_long_ago) == 0);
  delivered();
}

TEST_CASE("a first try replaces whatever is there, whenever it was changed") {
  StageOutJob job({{"one", "new"}});
  write_file(job.target / "one", "newer");
  job.deliver("one", "one");
  CHECK(file_text(job.target / "one") == "new");
}
