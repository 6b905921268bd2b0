#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include "limited.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

// Everything that a copy keeps, with times of its own.
void make_tree(const fs::path& root) {
  write_files(root, {{"b/deep/file", "content"},
                     {".hidden", "h"},
                     {"empty", ""},
                     {"program", "#!"},
                     {std::string(255, 'n'), "long name"}});
  fs::create_directory(root / "void");
  fs::create_symlink("../b/deep", root / "b/link");
  fs::create_symlink("nowhere", root / "dangling");
  fs::create_hard_link(root / "program", root / "b/same");
  fs::permissions(root / "program", fs::perms(0755));
  fs::permissions(root / "empty", fs::perms(0444));
  fs::permissions(root / "b/deep", fs::perms(0550));
  set_mtime(root / "empty", 1000000000, 123456789);
  set_mtime(root / "dangling", 1000000001, 1);
  set_mtime(root / "b/deep", 1000000002, 2);
  set_mtime(root / "b", 1000000003, 999999999);
}

}  // namespace

TEST_CASE("a tree arrives as cp -a would bring it") {
  StageOutJob job;
  make_tree(job.directory / "results");
  job.deliver("results", "new/out");
  CHECK(describe(job.target / "new/out") == describe(job.directory / "results"));
  const fs::path reference = job.target / "reference";
  const std::string copy =
      "cp -a '" + (job.directory / "results").string() + "' '" + reference.string() + "'";
  REQUIRE(std::system(copy.c_str()) == 0);
  CHECK(describe(job.target / "new/out") == describe(reference));
  CHECK(job.status.items[0].files == 8);
  CHECK(job.status.items[0].bytes_written == 7 + 1 + 2 + 9);
}

TEST_CASE("what is there stays, what has the same name is replaced") {
  StageOutJob job({{"results/sub/new", "new"}, {"results/same", "new"}});
  fs::create_symlink("b", job.directory / "results/link");
  write_files(job.target, {{"sub/old", "old"}, {"same", "old"}});
  fs::create_symlink("a", job.target / "link");
  fs::permissions(job.target / "sub", fs::perms(0770));
  fs::permissions(job.target / "same", fs::perms(0400));
  job.ask("results", job.target);
  REQUIRE(job.run() == 0);
  check_files(job.target, {{"same", "new"}, {"sub/old", "old"}, {"sub/new", "new"}});
  CHECK(fs::read_symlink(job.target / "link") == "b");
  CHECK((lstat_of(job.target / "sub").st_mode & 0777) == 0770);
  REQUIRE(job.run() == 0);  // once more over itself
  CHECK(leftovers(job.target).empty());
}

TEST_CASE("what an earlier try has made gets modes and times as if it had been one try") {
  StageOutJob job;
  make_tree(job.directory / "results");
  const AsUser user;
  job.deliver("results", "out");
  const auto whole = describe(job.target / "out");
  // A worker that was killed has left one directory unfinished, and another lacks a file.
  REQUIRE(chmod((job.target / "out/b").c_str(), 01700) == 0);
  set_mtime(job.target / "out/b", 1700000000, 0);
  const struct stat deep = lstat_of(job.target / "out/b/deep");
  REQUIRE(chmod((job.target / "out/b/deep").c_str(), 0750) == 0);
  fs::remove(job.target / "out/b/deep/file");
  REQUIRE(chmod((job.target / "out/b/deep").c_str(), 0550) == 0);
  set_mtime(job.target / "out/b/deep", deep.st_mtim.tv_sec, deep.st_mtim.tv_nsec);
  job.order.tries = 1;
  REQUIRE(job.run() == 0);
  CHECK(describe(job.target / "out") == whole);
}

// Ends, by SIGKILL, the process that runs a job's delivery, when the first name is made in
// `directory`.
void kill_in(StageOutJob& job, const fs::path& directory) {
  const auto time = [&] { return fs::last_write_time(directory); };
  const auto before = time();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(job.run());
  while (time() == before && ::waitpid(child, nullptr, WNOHANG) == 0) ::usleep(100);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a try that is killed in a directory which an earlier one has finished costs no times") {
  StageOutJob job;
  make_tree(job.directory / "results");
  for (int i = 0; i < 3000; ++i) write_file(job.directory / "results/b" / std::to_string(i), "x");
  fs::permissions(job.directory / "results/b", fs::perms(0755));
  set_mtime(job.directory / "results/b", 1000000003, 999999999);
  const AsUser user;
  job.deliver("results", "out");
  const auto whole = describe(job.target / "out");
  job.order.tries = 1;
  kill_in(job, job.target / "out/b");
  REQUIRE(lstat_of(job.target / "out/b").st_mtim.tv_sec != 1000000003);
  CHECK((lstat_of(job.target / "out/b").st_mode & 0777) == 0755);  // open to those who read it
  job.order.tries = 2;
  REQUIRE(job.run() == 0);
  CHECK(describe(job.target / "out") == whole);
}

TEST_CASE("an output's own directory gets the mode that cp -r gives it") {
  for (const mode_t mode : {0700U, 0750U, 0777U, 0500U, 01755U}) {
    CAPTURE(mode);
    StageOutJob job({{"results/f", "f"}});
    REQUIRE(chmod((job.directory / "results").c_str(), mode) == 0);
    job.ask("results", "out");
    job.ask("results", "dir/");
    REQUIRE(job.run() == 0);
    // Root's, where the tests run as root.
    const std::string cp = (job.target / "cp").string();
    const std::string source = (job.directory / "results").string();
    REQUIRE(std::system(("umask 022; cp -r '" + source + "' '" + cp + "'").c_str()) == 0);
    const auto rights = [](const fs::path& path) { return lstat_of(path).st_mode & 0777; };
    CHECK(rights(job.target / "out") == rights(cp));
    REQUIRE(std::system(("rm -rf '" + cp + "'").c_str()) == 0);
    CHECK((lstat_of(job.target / "out").st_mode & 07000) == (mode & 01000));
    for (const fs::path& path : {job.target / "out", job.target / "dir/results", fs::path(source)})
      chmod(path.c_str(), 0700);
  }
}

TEST_CASE(
    "an output's own directory: what is there stays, and what a killed try has left is ended") {
  StageOutJob job({{"results/f", "f"}});
  REQUIRE(chmod((job.directory / "results").c_str(), 0750) == 0);
  fs::create_directory(job.target / "out");
  job.ask("results", "out");
  const auto mode_after = [&](mode_t before) {
    REQUIRE(chmod((job.target / "out").c_str(), before) == 0);
    REQUIRE(job.run() == 0);
    return lstat_of(job.target / "out").st_mode & 07777;
  };
  CHECK(mode_after(0755) == 0755);
  CHECK(mode_after(02770) == 02770);
  CHECK(mode_after(01777) == 01777);
  CHECK(mode_after(01750) == 0750);
  CHECK(mode_after(03740) == 02740);
}

TEST_CASE("a directory of the user's own keeps its mode, a private one too") {
  StageOutJob job({{"results/sub/f", "f"}});
  fs::create_directories(job.target / "out/sub");
  fs::permissions(job.target / "out/sub", fs::perms(0700));
  set_mtime(job.target / "out/sub", 1000000000, 0);
  job.ask("results", "out");
  job.order.tries = 1;
  REQUIRE(job.run() == 0);
  CHECK((lstat_of(job.target / "out/sub").st_mode & 07777) == 0700);
}

TEST_CASE("a target that may not be read is delivered to") {
  StageOutJob job({{"results/f", "f"}});
  const AsUser user;
  REQUIRE(chmod(job.target.c_str(), 0300) == 0);
  job.ask("results/f", (job.target / "f").string());
  job.ask("results", (job.target / "new").string());
  job.ask("results", (job.target / "a.tar").string());
  CHECK(job.run() == 0);
  REQUIRE(chmod(job.target.c_str(), 0700) == 0);
  CHECK(names_in(job.target) == std::vector<std::string>{"a.tar", "f", "new"});
}

TEST_CASE("set-id bits are not carried, an inherited set-group-id bit stays") {
  StageOutJob job({{"results/sub/program", "x"}});
  REQUIRE(chmod((job.directory / "results/sub/program").c_str(), 06755) == 0);
  REQUIRE(chmod(job.target.c_str(), 02755) == 0);
  job.ask("results", job.target);
  REQUIRE(job.run() == 0);
  CHECK((lstat_of(job.target / "sub").st_mode & 07777) == 02755);
  CHECK((lstat_of(job.target / "sub/program").st_mode & 07777) == 0755);
}

TEST_CASE("holes stay holes") {
  StageOutJob job;
  const fs::path source = job.directory / "results/sparse";
  write_file(source, "head");
  fs::resize_file(source, 20 << 20);
  std::ofstream(source, std::ios::app) << "tail";
  write_file(job.directory / "results/hole", "");
  fs::resize_file(job.directory / "results/hole", 1 << 20);
  job.deliver("results", "out");
  CHECK(fs::file_size(job.target / "out/sparse") == (20 << 20) + 4);
  CHECK(lstat_of(job.target / "out/sparse").st_blocks < 100);
  CHECK(lstat_of(job.target / "out/hole").st_size == 1 << 20);
  CHECK(file_text(job.target / "out/sparse") == file_text(source));
}

TEST_CASE("unreadable files and directories of the user himself are delivered, modes kept") {
  StageOutJob job({{"results/secret", "s"}, {"results/closed/file", "f"}});
  fs::permissions(job.directory / "results/secret", fs::perms(0));
  fs::permissions(job.directory / "results/closed", fs::perms(0));
  job.deliver("results", "out");
  for (const fs::path& root : {job.target / "out", job.directory / "results"}) {
    CHECK((lstat_of(root / "secret").st_mode & 0777) == 0);
    CHECK((lstat_of(root / "closed").st_mode & 0777) == 0);
    fs::permissions(root / "secret", fs::perms(0600));
    fs::permissions(root / "closed", fs::perms(0700));
    check_files(root, {{"secret", "s"}, {"closed/file", "f"}});
  }
}

TEST_CASE("sockets and FIFOs are left out and counted") {
  StageOutJob job({{"results/file", "x"}});
  REQUIRE(mkfifo((job.directory / "results/fifo").c_str(), 0600) == 0);
  sockaddr_un address{AF_UNIX, {}};
  (job.directory / "results/socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  const Fd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  job.ask("results", "out");
  CHECK(job.run() == 0);
  CHECK(job.state() == ItemState::done);
  CHECK(job.note() == "2 sockets, FIFOs or devices were left out");
  CHECK(names_in(job.target / "out") == std::vector<std::string>{"file"});
}

TEST_CASE("an entry that cannot be put into the target is a failure of that entry alone") {
  StageOutJob job({{"results/file", "x"}});
  std::string note;
  std::map<std::string, std::string> kept;  // text by path in the target
  std::string empty;                        // a directory there
  SUBCASE("below the target no link is followed to a directory") {
    write_file(job.directory / "results/sub/file", "x");
    fs::create_directory(job.target / "elsewhere");
    empty = "elsewhere";
    fs::create_directory_symlink("elsewhere", job.target / "sub");
    note =
        "1 entry could not be delivered: sub: is a directory here, and a link in the target (to "
        "elsewhere), which is not followed: make it a directory there, or name another target";
  }
  SUBCASE("a file and a directory of one name") {
    write_files(job.directory / "results", {{"a", "file"}, {"b/inner", "x"}});
    kept = {{"a/inner", "kept"}, {"b", "kept"}};
    for (const auto& [path, text] : kept) write_file(job.target / path, text);
    note =
        "2 entries could not be delivered: a: is a file here and a directory in the target; "
        "b: is a directory here and something else in the target";
  }
  job.ask("results", job.target);
  CHECK(job.run() == 1);
  CHECK(job.note() == note);
  CHECK(file_text(job.target / "file") == "x");
  for (const auto& [path, text] : kept) CHECK(file_text(job.target / path) == text);
  if (!empty.empty()) CHECK(fs::is_empty(job.target / empty));
}

TEST_CASE("a target in the job's own directory is refused for good, and nothing is made there") {
  PushJob job({{"results/file", "x"}, {"one", "1"}});
  fs::create_directory_symlink(job.directory, job.target / "run");
  fs::create_directory_symlink(job.target, job.directory / "out");
  std::vector<std::string> targets;
  const auto ask = [&](const std::string& source, const std::string& to) -> OutputItem& {
    targets.push_back(to);
    return job.ask(source, to);
  };
  ask("results", job.target / "run/a/b");
  ask("results", job.directory / "results/copy");
  ask("one", job.target / "run");
  ask("[o]*", job.directory);
  ask("results", job.target / "run/one/below");
  const std::size_t plain = targets.size();
  ask("results", job.directory / "c/r.tar");
  ask("one", job.target / "run/").pack = true;
  job.ask("results", job.directory / "out/elsewhere");
  const auto before = describe(job.directory);
  const auto check = [&](std::size_t count, std::uint32_t is_final) {
    CHECK(job.run() == 1);
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(targets[i]);
      CHECK(job.state(i) == ItemState::failed);
      CHECK((job.status.items[i].flags & k_item_final) == is_final);
      CHECK(job.note(i).starts_with("the target " + targets[i]));
      CHECK(job.note(i).ends_with(
          " lies in the job's own directory, which is removed when the job ends: name a directory "
          "elsewhere"));
    }
    CHECK(describe(job.directory) == before);
    CHECK(file_text(job.target / "elsewhere/file") == "x");
  };
  check(plain, 0);
  job.order.outcome = JobOutcome::success;
  job.order.task = WorkerTask::stage_out;
  check(targets.size(), k_item_final);
}

TEST_CASE("a failed write leaves the old file and nothing else; the others arrive") {
  StageOutJob job({{"results/a-big", std::string(3 << 20, 'n')}});
  write_file(job.target / "a-big", "old");
  std::vector<std::string> there{"a-big"};
  SUBCASE("another file arrives") {
    write_file(job.directory / "results/b-small", "new");
    there.push_back("b-small");
  }
  SUBCASE("hard links of it do not become links to the older one") {
    fs::create_hard_link(job.directory / "results/a-big", job.directory / "results/b");
  }
  job.ask("results", job.target);
  {
    const Limited limited(RLIMIT_FSIZE, 2 << 20);
    CHECK(job.run() == 1);
  }
  CHECK(names_in(job.target) == there);
  CHECK(file_text(job.target / "a-big") == "old");
  CHECK(leftovers(job.target).empty());
  if (there.size() == 1) return;
  CHECK(job.note() == "1 entry could not be delivered: a-big: cannot write: File too large");
  CHECK(file_text(job.target / "b-small") == "new");
}

TEST_CASE("a reader never sees a part of a file") {
  StageOutJob job;
  constexpr std::size_t k_bytes = 8 << 20;
  write_file(job.target / "file", std::string(k_bytes, 'a'));
  write_file(job.directory / "results/file", std::string(k_bytes, 'b'));
  job.ask("results", job.target);
  std::atomic<bool> ended = false;
  std::atomic<int> partial = 0;
  std::thread reader([&] {
    while (!ended) {
      const std::string text = file_text(job.target / "file");
      if (text.size() != k_bytes || text.find_first_not_of(text[0]) != std::string::npos) ++partial;
    }
  });
  for (int i = 0; i < 10; ++i) CHECK(job.run() == 0);
  ended = true;
  reader.join();
  CHECK(partial == 0);
  CHECK(file_text(job.target / "file")[0] == 'b');
}

TEST_CASE("depth 1000, beyond PATH_MAX, with few descriptors") {
  StageOutJob job;
  fs::create_directory(job.directory / "results");
  const auto open_dir = [](int at, const char* name) {
    return Fd(openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
  };
  Fd fd = open_dir(AT_FDCWD, (job.directory / "results").c_str());
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(mkdirat(fd.get(), "level", 0700) == 0);
    REQUIRE(symlinkat("x", fd.get(), "link") == 0);
    fd = open_dir(fd.get(), "level");
  }
  const Fd file(openat(fd.get(), "bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(linkat(fd.get(), "bottom", fd.get(), "twin", 0) == 0);
  job.ask("results", "out");
  {
    const Limited limited(RLIMIT_NOFILE, 128);
    CHECK(job.run() == 0);
  }
  CHECK(job.status.items[0].files == 1002);
  Fd copy = open_dir(AT_FDCWD, (job.target / "out").c_str());
  for (int i = 0; i < 1000 && copy; ++i) copy = open_dir(copy.get(), "level");
  CHECK(faccessat(copy.get(), "twin", R_OK, 0) == 0);
}

TEST_CASE("a full target ends the item at once") {
  if (geteuid() != 0) {
    MESSAGE("skipped: needs root to mount a small tmpfs");
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    StageOutJob job({{"results/a", std::string(3 << 20, 'n')}, {"results/b", "x"}});
    fs::permissions(job.directory / "results", fs::perms(0));
    if (seteuid(0) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
        mount("none", job.target.c_str(), "tmpfs", 0, "size=1m,mode=1777") != 0 ||
        seteuid(65534) != 0) {
      _exit(77);
    }
    job.ask("results", job.target);
    const bool good = job.run() == 1 && fs::is_empty(job.target) &&
                      job.note() ==
                          "1 entry could not be delivered: a: cannot write: "
                          "No space left on device; the rest was not tried" &&
                      (lstat_of(job.directory / "results").st_mode & 0777) == 0 &&
                      job.status.cause.find("\nMake room at the target") != std::string::npos;
    if (seteuid(0) == 0) umount2(job.target.c_str(), MNT_DETACH);
    fs::remove_all(job.target.parent_path());
    _exit(good ? 0 : 1);
  }
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  if (WEXITSTATUS(wait_status) == 77) {
    MESSAGE("skipped: no mount here");
    return;
  }
  CHECK(wait_status == 0);
}
