// Results while the job runs: what a later push, or the end of the job, makes of what an earlier
// one left.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include "daemon/worker/deliver/delivered_list.hpp"
#include "limited.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

// In a process of its own, which is killed in the middle of its first file: nothing more passes the
// rate.
void kill_in_first_file(PushJob& job) {
  job.max_rate = 1;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(job.run());
  int status = 0;
  while (leftovers(job.target).empty() && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(1000);
  ::usleep(20'000);  // without a rate it would have ended
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(leftovers(job.target).size() == 1);
  job.max_rate = 0;
}

}  // namespace

TEST_CASE("what is deleted in the target is not restored by a push, but at the end") {
  PushJob job;
  const fs::path out = job.target / "out";
  for (const char* name : {"same", "gone", "short", "old", "sub/gone"})
    write_file(job.directory / "results" / name, "content");
  fs::create_symlink("same", job.directory / "results/link");
  ::usleep(20'000);
  job.deliver("results", "out");
  const ino_t same = inode_of(out / "same");
  const ino_t link = inode_of(out / "link");
  fs::remove(out / "gone");
  fs::remove_all(out / "sub");
  write_file(out / "short", "c");
  set_mtime(out / "old", 1000, 0);
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
  CHECK_FALSE(fs::exists(out / "gone"));
  CHECK_FALSE(fs::exists(out / "sub"));
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 4);
  CHECK(describe(out) == describe(job.directory / "results"));
  CHECK(inode_of(out / "same") == same);
  CHECK(inode_of(out / "link") == link);
}

TEST_CASE("what others have put under its name since it was delivered is replaced at the end") {
  PushJob job;
  const fs::path out = job.target / "out";
  write_file(job.directory / "results/metrics", "ours");
  set_mtime(job.directory / "results/metrics", 1700000000, 123456789);
  write_file(job.directory / "results/coarse", "ours");
  set_mtime(job.directory / "results/coarse", 1700000000, 123456789);
  fs::create_symlink("step-1000", job.directory / "results/latest");
  ::usleep(20'000);
  job.deliver("results", "out");
  set_mtime(out / "coarse", 1700000000, 123456000);  // as a file system that keeps microseconds
  write_file(out / "metrics", "them");               // of the same second
  set_mtime(out / "metrics", 1700000000, 987654321);
  fs::remove(out / "latest");
  fs::create_symlink("step-2000", out / "latest");
  REQUIRE(job.run_end() == 0);
  CHECK(file_text(out / "metrics") == "ours");
  CHECK(fs::read_symlink(out / "latest") == "step-1000");
  CHECK(job.files() == 2);
}

TEST_CASE("the end copies what is not there yet") {
  PushJob job({{"results/sub/a", "1"}, {"results/sub/b", "1"}});
  job.deliver("results", "out");
  write_files(job.directory, {{"results/sub/b", "2"}, {"results/sub/c", "3"}});
  fs::permissions(job.directory / "results/sub", fs::perms(0750));
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 2);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  job.order.keeps_list = false;  // as of a job that pushed nothing
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 3);
}

TEST_CASE("recovery does not look at the list") {
  PushJob job({{"results/a", "1"}});
  job.deliver("results", "out");
  job.order.task = WorkerTask::recover;
  job.order.recover_to = job.target / "back";
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "back/results/a") == "1");
}

TEST_CASE("directories: mode and time follow the source, also of one that changed in between") {
  PushJob job;
  const fs::path sub = job.directory / "results/sub";
  write_file(sub / "a", "1");
  fs::create_directory(job.directory / "results/empty");
  fs::permissions(sub, fs::perms(0755));
  job.ask("results", "out");
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(job.run() == 0);
    CHECK(describe(job.target / "out") == describe(job.directory / "results"));
    write_file(sub / std::to_string(i), "1");
    fs::permissions(sub, i == 0 ? fs::perms(0750) : fs::perms(0755));
  }
}

TEST_CASE(
    "an output's own directory becomes private with its source, also one that denies writing") {
  PushJob job;
  const fs::path results = job.directory / "results";
  write_file(results / "f", "f");
  job.ask("results", "out");
  const auto mode = [&] { return lstat_of(job.target / "out").st_mode & 07777; };
  REQUIRE(job.run() == 0);
  CHECK(mode() == 0755);
  for (const mode_t private_mode : {0500U, 0700U}) {
    write_file(results / std::to_string(private_mode), "x");
    REQUIRE(chmod(results.c_str(), private_mode) == 0);
    REQUIRE(job.run() == 0);
    CHECK(mode() == private_mode);
    chmod(results.c_str(), 0700);
  }
  // The user's own decision.
  REQUIRE(chmod((job.target / "out").c_str(), 0755) == 0);
  REQUIRE(job.run_end() == 0);
  CHECK(mode() == 0755);
}

TEST_CASE("a directory of the user's own in the target keeps its mode") {
  PushJob job({{"results/sub/a", "1"}});
  fs::permissions(job.directory / "results/sub", fs::perms(0755));
  write_file(job.target / "out/sub/theirs", "x");
  fs::permissions(job.target / "out/sub", fs::perms(0700));
  job.ask("results", "out");
  for (int i = 0; i < 3; ++i) {
    REQUIRE(job.run() == 0);
    CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0700);
    write_file(job.directory / "results/sub" / std::to_string(i), "1");
  }
  check_files(job.target, {{"out/sub/theirs", "x"}, {"out/sub/1", "1"}});
}

TEST_CASE(
    "a directory that the push may not read gets its mode back, unless the job has changed it") {
  for (const bool changes : {false, true}) {
    CAPTURE(changes);
    PushJob job;
    job.rules.tick = std::chrono::hours(1);
    const fs::path sub = job.directory / "results/sub";
    write_file(sub / "a", "1");
    fs::permissions(sub, fs::perms(0300));
    if (changes) job.on_wait = [&] { fs::permissions(sub, fs::perms(0755)); };
    job.deliver("results", "out");
    CHECK(job.files() == 1);
    CHECK((lstat_of(sub).st_mode & 07777) == (changes ? 0755 : 0300));
  }
}

TEST_CASE("a directory that others read stays open to them, also one that denies writing") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);
  const fs::path sub = job.directory / "results/sub";
  write_file(sub / "a", "1");
  fs::permissions(sub, fs::perms(0555));
  job.deliver("results", "out");
  CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0555);
  fs::permissions(sub, fs::perms(0755));
  write_file(sub / "b", "1");
  fs::permissions(sub, fs::perms(0555));
  mode_t mode = 0;
  job.on_wait = [&] { mode = lstat_of(job.target / "out/sub").st_mode; };
  REQUIRE(job.run() == 0);
  CHECK((mode & 0555) == 0555);
  CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0555);
  CHECK(file_text(job.target / "out/sub/b") == "1");
}

TEST_CASE("a push that was killed leaves nothing, even where its source or output is gone") {
  for (const char* next : {"other output", "other file", "end"}) {
    CAPTURE(std::string(next));
    PushJob job({{"first/sub/model.pt", std::string(k_large, 'x')}, {"second/a", "1"}});
    job.ask("first", "one");
    job.ask("second", "two");
    kill_in_first_file(job);
    if (next == std::string("other file")) {
      fs::remove_all(job.directory / "first/sub");
    } else {
      fs::remove_all(job.directory / "first");
    }
    if (next == std::string("other output")) {
      job.order.push_all = false;
      job.order.push_names = {"second"};
    }
    CHECK((next == std::string("end") ? job.run_end() : job.run()) == 0);
    CHECK(leftovers(job.target).empty());
    CHECK(file_text(job.target / "two/a") == "1");
  }
}

TEST_CASE("a directory that a push was killed in gets its mode and time later") {
  PushJob job({{"results/sub/model.pt", std::string(k_large, 'x')}});
  job.ask("results", "out");
  kill_in_first_file(job);
  REQUIRE(job.run() == 0);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
}

TEST_CASE("a directory that a push was killed in has its new mode at the end, not the former one") {
  PushJob job;
  const fs::path sub = job.directory / "results/sub";
  write_file(sub / "a", "1");
  fs::permissions(sub, fs::perms(0755));
  job.deliver("results", "out");
  write_file(sub / "b", "1");
  fs::permissions(sub, fs::perms(0700));
  REQUIRE(job.run() == 0);
  // The second one, killed after it noted the directory and before it set the mode.
  REQUIRE(chmod((job.target / "out/sub").c_str(), 01755) == 0);
  write_file(sub / "c", "1");
  REQUIRE(job.run_end() == 0);
  CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0700);
}

TEST_CASE("a list with a torn record, or without a header: that is copied again") {
  PushJob job;
  for (const char* name : {"a", "b", "c"}) write_file(job.directory / "results" / name, "1");
  job.deliver("results", "out");
  const auto tear = [&](std::size_t offset) {
    std::fstream list(job.list, std::ios::in | std::ios::out | std::ios::binary);
    list.seekp(static_cast<std::streamoff>(offset)).write("torn", 4);
  };
  tear(k_delivered_head_bytes + 56 + 10);
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 1);
  tear(0);
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 3);
}

TEST_CASE("a permission that is lost: a fault of that entry, and delivered once it is back") {
  PushJob job;
  for (const char* name : {"a/f", "a/g", "b/f"}) write_file(job.directory / "results" / name, "1");
  job.deliver("results", "out");
  write_files(job.directory, {{"results/a/f", "22"}, {"results/a/g", "22"}, {"results/b/f", "22"}});
  fs::remove_all(job.target / "out/a");
  write_file(job.target / "out/a", "a file");
  CHECK(job.run() == 1);
  CHECK(job.status.phase == WorkerPhase::failed);
  CHECK(job.note() ==
        "1 entry could not be delivered: a: is a directory here and something else in the target");
  CHECK(job.status.cause.starts_with("delivery of results to "));
  CHECK(
      job.status.cause.ends_with("\nIt is tried again the next time, and at the end of the job."));
  CHECK(file_text(job.target / "out/b/f") == "22");
  fs::remove(job.target / "out/a");
  CHECK(job.run() == 0);
  CHECK(file_text(job.target / "out/a/f") == "22");

  fs::permissions(job.target / "out", fs::perms(0500));
  write_file(job.directory / "results/top", "1");
  CHECK(job.run() == 1);
  CHECK(job.note().find("top: cannot make a file in the target: Permission denied") !=
        std::string::npos);
  fs::permissions(job.target / "out", fs::perms(0700));
  CHECK(job.run() == 0);
  CHECK(job.files() == 1);
}

TEST_CASE("a file that cannot be written is tried again, and leaves nothing") {
  PushJob job({{"results/a-big", std::string(3 << 20, 'n')}, {"results/b", "1"}});
  job.ask("results", "out");
  {
    const Limited limited(RLIMIT_FSIZE, 2 << 20);
    CHECK(job.run() == 1);
  }
  CHECK(job.note() == "1 entry could not be delivered: a-big: cannot write: File too large");
  CHECK(names_in(job.target / "out") == Names{"b"});
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 1);
}

TEST_CASE("the end is slowed down by the rate, too, also of archives") {
  for (const char* target : {"out", "all.tar"}) {
    PushJob job({{"results/a", std::string(k_large, 'x')}});
    job.ask("results", target);
    job.order.task = WorkerTask::stage_out;
    kill_in_first_file(job);
    CHECK(leftovers(job.target).size() == 1);
  }
}

// How much a push is going to copy, for the progress.

TEST_CASE(
    "a push that somebody watches knows how much there is to copy, of what is not there yet") {
  PushJob job;
  job.order.shows_total = true;
  write_file(job.directory / "results/a", std::string(1000, 'a'));
  write_file(job.directory / "results/sub/b", std::string(200, 'b'));
  fs::create_symlink("a", job.directory / "results/l");
  const auto total = [&job](std::size_t item = 0) { return job.status.items[item].bytes_total; };
  SUBCASE("of a directory's contents") {
    job.deliver("results", "out");
    CHECK(total() == 1200);
    write_file(job.directory / "results/sub/c", std::string(30, 'c'));
    REQUIRE(job.run() == 0);
    CHECK(total() == 30);
    CHECK(job.status.items[0].bytes_read == 30);
  }
  SUBCASE("of the directory, a file, and matches") {
    job.ask("results", "inside/");
    job.ask("results/a", "named");
    job.ask("res*/a", "matches");
    REQUIRE(job.run() == 0);
    CHECK(total() == 1200);
    CHECK(total(1) == 1000);
    CHECK(total(2) == 1000);
    write_file(job.directory / "results/sub/c", std::string(30, 'c'));
    REQUIRE(job.run() == 0);
    CHECK(total() == 30);
    CHECK(total(1) == 0);
    CHECK(total(2) == 0);
  }
  SUBCASE("and one that nobody watches does not look") {
    job.order.shows_total = false;
    job.deliver("results", "out");
    CHECK(total() == 0);
  }
}
