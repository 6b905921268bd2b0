// Results while the job runs: what has changed and is whole, and never a part of a file.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "daemon/worker/deliver/delivered_list.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Names = std::vector<std::string>;

namespace {

constexpr std::size_t k_large = std::size_t{4} << 20;

// Not among the worker's own descriptors.
Fd held_open(const fs::path& path) {
  const Fd low(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return Fd(::fcntl(low.get(), F_DUPFD_CLOEXEC, 100));
}

ino_t inode_of(const fs::path& path) { return lstat_of(path).st_ino; }

bool is_uniform(const std::string& text) {
  return text.size() == k_large && text.find_first_not_of(text[0]) == std::string::npos;
}

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

TEST_CASE("the first push brings all, the next one what has changed since") {
  PushJob job;
  write_file(job.directory / "results/a", "1");
  write_file(job.directory / "results/sub/b", "2");
  fs::create_symlink("a", job.directory / "results/l");
  set_mtime(job.directory / "results/l", 1000000000, 0);
  ::usleep(20'000);  // or the link, which could be another one by now, comes once more
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 3);
  CHECK(job.status.phase == WorkerPhase::done);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  const ino_t a = inode_of(job.target / "out/a");
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 0);
  CHECK(job.status.items[0].bytes_written == 0);
  write_file(job.directory / "results/sub/b", "changed");
  write_file(job.directory / "results/new", "3");
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 2);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  CHECK(inode_of(job.target / "out/a") == a);
}

TEST_CASE("one file, a glob, and the directory itself") {
  PushJob job;
  write_file(job.directory / "results/a", "1");
  job.ask("results/a", "named");
  job.ask("res*/*", "matches");
  job.ask("results", "inside/");
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "named") == "1");
  CHECK(file_text(job.target / "matches/a") == "1");
  CHECK(file_text(job.target / "inside/results/a") == "1");
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "out/a") == "old");
  CHECK(file_text(job.target / "out/c") == "newer");
  job.on_wait = {};
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "out/a") == "newer");
}

TEST_CASE("what is being written is named and left, and comes when it is closed") {
  PushJob job;
  write_file(job.directory / "results/done.pt", "whole");
  Fd writer = held_open(job.directory / "results/model.pt");
  REQUIRE(write(writer.get(), "ha", 2) == 2);
  job.ask("results", "out");
  CHECK(job.run() == 0);
  CHECK(job.state() == ItemState::done);
  CHECK(job.is_unsettled());
  CHECK(job.note() == "1 file was being written and is left for the next delivery: model.pt");
  CHECK(names_in(job.target / "out") == Names{"done.pt"});
  CHECK(std::count(job.waits.begin(), job.waits.end(), job.rules.between) == 3);
  REQUIRE(write(writer.get(), "lf", 2) == 2);
  writer.reset();
  CHECK(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(job.note().empty());
  CHECK(job.files() == 1);
  CHECK(file_text(job.target / "out/model.pt") == "half");
}

TEST_CASE("what is closed while the push waits comes with it; what was renamed, by its new name") {
  PushJob job;
  Fd writer = held_open(job.directory / "model.tmp");
  job.on_wait = [&] {
    if (job.waits.back() != job.rules.between) return;
    writer.reset();
    fs::rename(job.directory / "model.tmp", job.directory / "model.pt");
  };
  job.ask("model.*", "out");
  CHECK(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(names_in(job.target / "out") == Names{"model.pt"});
}

TEST_CASE("all names of a file that is being written wait for it") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);
  fs::create_directories(job.directory / "results");
  Fd writer = held_open(job.directory / "results/a");
  fs::create_hard_link(job.directory / "results/a", job.directory / "results/c");
  write_file(job.directory / "results/b", "x");
  job.on_wait = [&] { writer.reset(); };  // between a and c
  job.ask("results", "out");
  job.rules.looks = 1;
  CHECK(job.run() == 0);
  CHECK(job.note() == "2 files were being written and are left for the next delivery: a, c");
  CHECK(job.run() == 0);
  CHECK(inode_of(job.target / "out/a") == inode_of(job.target / "out/c"));
}

TEST_CASE("what is opened for writing during its copy is not whole") {
  PushJob job;
  write_file(job.directory / "results/model.pt", std::string(k_large, 'x'));
  job.ask("results", "out");
  job.rules.looks = 1;
  job.max_rate = 1;  // the copy waits
  Fd writer;
  std::thread program([&] {
    while (leftovers(job.target).empty()) ::usleep(1000);
    writer = held_open(job.directory / "results/model.pt");
    const std::uint64_t no_limit = 0;
    if (::pwrite(k_worker_rate_fd, &no_limit, sizeof no_limit, 0) < 0) abort();
  });
  CHECK(job.run() == 0);
  program.join();
  CHECK(job.is_unsettled());
  CHECK(fs::is_empty(job.target / "out"));
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

TEST_CASE("a log that is held open comes when it is quiet, and again when it has grown") {
  PushJob job;
  fs::create_directory(job.directory / "results");
  const Fd log = held_open(job.directory / "results/train.log");
  REQUIRE(write(log.get(), "1", 1) == 1);
  job.ask("results", "out");
  job.run();
  CHECK(job.is_unsettled());
  if (is_tmpfs(job.directory)) {
    MESSAGE("skipped: on a tmpfs it comes when it is closed");
    return;
  }
  job.rules.quiet = SettleRules::Time(0);
  REQUIRE(job.run() == 0);
  CHECK_FALSE(job.is_unsettled());
  CHECK(file_text(job.target / "out/train.log") == "1");
  REQUIRE(write(log.get(), "2", 1) == 1);
  REQUIRE(job.run() == 0);
  CHECK(file_text(job.target / "out/train.log") == "12");
}

TEST_CASE("what is mapped in a job directory in memory arrives at the end as it is then") {
  if (!is_tmpfs("/dev/shm")) {
    MESSAGE("skipped: no tmpfs");
    return;
  }
  const InMemory memory;
  PushJob job;
  fs::create_directories(job.directory / "results");
  Fd writer = held_open(job.directory / "results/state");
  REQUIRE(write(writer.get(), "old", 3) == 3);
  char* const mapped =
      static_cast<char*>(mmap(nullptr, 3, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0));
  REQUIRE(static_cast<void*>(mapped) != MAP_FAILED);
  mapped[0] = 'o';
  writer.reset();
  job.rules.quiet = SettleRules::Time(0);
  job.ask("results", "out");
  CHECK(job.run() == 0);
  mapped[0] = 'b';  // changes no time
  CHECK(job.run_end() == 0);
  munmap(mapped, 3);
  CHECK(file_text(job.target / "out/state") == "bld");
}

TEST_CASE("a file that never settles is delivered at the end") {
  PushJob job;
  fs::create_directory(job.directory / "results");
  const Fd writer = held_open(job.directory / "results/state");
  REQUIRE(write(writer.get(), "x", 1) == 1);
  job.ask("results", "out");
  for (int i = 0; i < 2; ++i) {
    CHECK(job.run() == 0);
    CHECK(job.is_unsettled());
    CHECK_FALSE(fs::exists(job.target / "out/state"));
  }
  REQUIRE(job.run_end() == 0);
  CHECK(file_text(job.target / "out/state") == "x");
}

TEST_CASE("many that are being written: the first ones by name") {
  PushJob job;
  std::vector<Fd> writers;
  fs::create_directory(job.directory / "results");
  for (int i = 0; i < 7; ++i)
    writers.push_back(held_open(job.directory / "results" / std::to_string(i)));
  job.ask("results", "out");
  job.run();
  CHECK(job.note() ==
        "7 files were being written and are left for the next delivery: 0, 1, 2, 3, 4 and 2 more");
  CHECK(leftovers(job.target).empty());
}

TEST_CASE("a writer that rewrites in place, or renames: what is in the target is a whole version") {
  for (const bool renames : {false, true}) {
    CAPTURE(renames);
    PushJob job;
    job.rules.wait = [](std::chrono::milliseconds time) {
      std::this_thread::sleep_for(std::min(time, std::chrono::milliseconds(20)));
    };
    const fs::path file = job.directory / "results/model.pt";
    write_file(file, std::string(k_large, 'a'));
    job.ask("results", "out");
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
      for (char c = 'b'; !is_over; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        const std::string text(k_large, c);
        const Fd to = held_open(renames ? file.string() + ".tmp" : file.string());
        if (::pwrite(to.get(), text.data(), text.size(), 0) < 0) return;
        if (renames) fs::rename(file.string() + ".tmp", file);
      }
    });
    int torn = 0;
    for (int i = 0; i < 6; ++i) {
      CHECK(job.run() == 0);
      const fs::path there = job.target / "out/model.pt";
      if (fs::exists(there) && !is_uniform(file_text(there))) ++torn;
    }
    is_over = true;
    writer.join();
    CHECK(torn == 0);
    CHECK(job.run() == 0);
    CHECK(is_uniform(file_text(job.target / "out/model.pt")));
    CHECK(file_text(job.target / "out/model.pt") == file_text(file));
  }
}

TEST_CASE("what vanishes meanwhile is no fault: a file, a directory") {
  PushJob job;
  job.rules.tick = std::chrono::hours(1);
  const fs::path results = job.directory / "results";
  write_file(results / "a", "1");
  write_file(results / "b", "1");
  write_file(results / "c/d", "1");
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

TEST_CASE("what is deleted in the target is not restored by a push, but at the end") {
  PushJob job;
  const fs::path out = job.target / "out";
  for (const char* name : {"same", "gone", "short", "old", "sub/gone"})
    write_file(job.directory / "results" / name, "content");
  fs::create_symlink("same", job.directory / "results/link");
  ::usleep(20'000);
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
  PushJob job;
  write_file(job.directory / "results/sub/a", "1");
  write_file(job.directory / "results/sub/b", "1");
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
  write_file(job.directory / "results/sub/b", "2");
  write_file(job.directory / "results/sub/c", "3");
  fs::permissions(job.directory / "results/sub", fs::perms(0750));
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 2);
  CHECK(describe(job.target / "out") == describe(job.directory / "results"));
  job.order.keeps_list = false;  // as of a job that pushed nothing
  REQUIRE(job.run_end() == 0);
  CHECK(job.files() == 3);
}

TEST_CASE("recovery does not look at the list") {
  PushJob job;
  write_file(job.directory / "results/a", "1");
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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

TEST_CASE("a directory of the user's own in the target keeps its mode") {
  PushJob job;
  write_file(job.directory / "results/sub/a", "1");
  fs::permissions(job.directory / "results/sub", fs::perms(0755));
  write_file(job.target / "out/sub/theirs", "x");
  fs::permissions(job.target / "out/sub", fs::perms(0700));
  job.ask("results", "out");
  for (int i = 0; i < 3; ++i) {
    REQUIRE(job.run() == 0);
    CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0700);
    write_file(job.directory / "results/sub" / std::to_string(i), "1");
  }
  CHECK(file_text(job.target / "out/sub/theirs") == "x");
  CHECK(file_text(job.target / "out/sub/1") == "1");
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
    job.ask("results", "out");
    REQUIRE(job.run() == 0);
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
    PushJob job;
    write_file(job.directory / "first/sub/model.pt", std::string(k_large, 'x'));
    write_file(job.directory / "second/a", "1");
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
  PushJob job;
  write_file(job.directory / "results/sub/model.pt", std::string(k_large, 'x'));
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
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
  PushJob job;
  write_file(job.directory / "results/a.tar", "1");
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

TEST_CASE("a permission that is lost: a fault of that entry, and delivered once it is back") {
  PushJob job;
  for (const char* name : {"a/f", "a/g", "b/f"}) write_file(job.directory / "results" / name, "1");
  job.ask("results", "out");
  REQUIRE(job.run() == 0);
  write_file(job.directory / "results/a/f", "22");
  write_file(job.directory / "results/a/g", "22");
  write_file(job.directory / "results/b/f", "22");
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
  PushJob job;
  write_file(job.directory / "results/a-big", std::string(3 << 20, 'n'));
  write_file(job.directory / "results/b", "1");
  job.ask("results", "out");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{2 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK(job.run() == 1);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(job.note() == "1 entry could not be delivered: a-big: cannot write: File too large");
  CHECK(names_in(job.target / "out") == Names{"b"});
  REQUIRE(job.run() == 0);
  CHECK(job.files() == 1);
}

TEST_CASE("the end is slowed down by the rate, too, also of archives") {
  for (const char* target : {"out", "all.tar"}) {
    PushJob job;
    write_file(job.directory / "results/a", std::string(k_large, 'x'));
    job.ask("results", target);
    job.order.task = WorkerTask::stage_out;
    kill_in_first_file(job);
    CHECK(leftovers(job.target).size() == 1);
  }
}

TEST_CASE("a request that cannot be read is not said to be kept on the node") {
  PushJob job;
  const Fd status_fd(::open((job.target / "status").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  dup2(status_fd.get(), k_worker_status_fd);
  CHECK(refuse_stage_out(job.order, Error{0, "not JSON"}) == 1);
  close(k_worker_status_fd);
  const auto status = read_worker_status(status_fd.get());
  REQUIRE(status);
  CHECK(status->cause ==
        "the request cannot be read: not JSON\n"
        "It is tried again the next time, and at the end of the job.");
}
