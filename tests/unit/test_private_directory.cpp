#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/run_dirs/private_directory.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

std::string mark_at(const std::string& path) {
  return mark_of(must(open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY)).get()).value();
}

}  // namespace

TEST_CASE("a private directory is the caller's alone, and goes with all in it") {
  Scratch scratch;
  std::string path;
  {
    const auto directory =
        must(PrivateDirectory::make(PrivateKind::job, scratch.path().string() + "/"));
    path = directory.path();
    CHECK(fs::path(path).parent_path() == scratch.path());
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0700);
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/c") << "x";
    fs::permissions(path + "/a", fs::perms::none);
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("one that is kept stays") {
  Scratch scratch;
  std::string path;
  {
    auto directory = must(PrivateDirectory::make(PrivateKind::job, scratch.path()));
    path = directory.path();
    directory.keep();
  }
  CHECK(fs::exists(path));
}

TEST_CASE("one that is adopted stays, with the mode that it has, until it is removed") {
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  fs::create_directory(path);
  fs::permissions(path, fs::perms(0755));
  const std::string mark = mark_at(path);
  REQUIRE(PrivateDirectory::adopt(path, mark));
  CHECK(fs::status(path).permissions() == fs::perms(0755));
  auto adopted = must(PrivateDirectory::adopt(path, mark));
  CHECK(adopted.remove());
  CHECK(!fs::exists(path));
  CHECK(PrivateDirectory::adopt(path, mark).error().code == ENOENT);
}

TEST_CASE("another directory of the caller's, put in the place of one, is not adopted") {
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  const std::string thesis = scratch / "thesis";
  fs::create_directory(path);
  fs::create_directories(thesis + "/chapter");
  const std::string mark = mark_at(path);
  fs::rename(path, scratch / "away");
  fs::rename(thesis, path);
  CHECK(PrivateDirectory::adopt(path, mark).error().code == EPERM);
  CHECK(fs::exists(path + "/chapter"));
  fs::create_directory_symlink(scratch / "away", scratch / "link");
  CHECK_FALSE(PrivateDirectory::adopt(scratch / "link", mark));
}

TEST_CASE("what is mounted at the place of one is not entered") {
  if (::geteuid() != 0) return;
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  REQUIRE(open_private(path));
  // In a name space of its own, which goes with the process.
  auto child = must(ChildProcess::start(Orphan::killed, [&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", path.c_str(), "tmpfs", 0, "mode=700") != 0)
      return 77;
    const auto opened = open_private(path);
    return !opened && opened.error().code == EXDEV ? 0 : 1;
  }));
  CHECK(child.wait() == 0);
}

TEST_CASE("the kind of a directory is in its name, and what belongs together has one end of it") {
  Scratch scratch;
  const auto record = PrivateDirectory::make(PrivateKind::record, scratch.path());
  REQUIRE(record);
  const auto job = PrivateDirectory::make_beside(PrivateKind::job, *record);
  REQUIRE(job);
  CHECK(job->path() == path_beside(PrivateKind::job, record->path()));
  CHECK(path_beside(PrivateKind::record, job->path()) == record->path());
  for (const PrivateKind kind : {PrivateKind::job, PrivateKind::record, PrivateKind::memory})
    CHECK(private_kind(std::string(private_prefix(kind)) + "x") == kind);
  CHECK_FALSE(private_kind("nodestage-x"));
  CHECK(PrivateDirectory::make_beside(PrivateKind::job, *record).error().code == EEXIST);
}

TEST_CASE("one is adopted by its lock when nobody has it") {
  Scratch scratch;
  std::string path;
  {
    auto made = must(PrivateDirectory::make(PrivateKind::memory, scratch.path()));
    path = made.path();
    CHECK(PrivateDirectory::adopt_unlocked(path).error().code == EWOULDBLOCK);
    made.keep();
  }
  auto adopted = must(PrivateDirectory::adopt_unlocked(path));
  CHECK(adopted.remove());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a parent that begins with ~ lies in the home directory") {
  Scratch scratch;
  const char* home = ::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", scratch.path().c_str(), 1);
  fs::create_directory(scratch / "tmp");
  const auto directory = must(PrivateDirectory::make(PrivateKind::job, "~/tmp"));
  ::setenv("HOME", before.c_str(), 1);
  CHECK(directory.path().starts_with(scratch / "tmp/nodestage-run-"));
}

TEST_CASE("by default it lies below TMPDIR; a parent that is missing is a fault") {
  Scratch scratch;
  ::setenv("TMPDIR", scratch.path().c_str(), 1);
  const auto directory = must(PrivateDirectory::make(PrivateKind::job, ""));
  ::unsetenv("TMPDIR");
  CHECK(directory.path().starts_with(scratch.path().string() + "/nodestage-run-"));
  const Error missing = must_fail(PrivateDirectory::make(PrivateKind::job, scratch / "missing"));
  CHECK(missing.what ==
        "cannot create a directory in " + (scratch / "missing") + ": No such file or directory");
}

namespace {

// In this process, every flock() fails from now on.
bool take_locks_away(int code) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(code)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The number of the first thing that is wrong where flock() fails; 0: nothing.
int fault_without_locks(const std::string& parent, int code) {
  if (!take_locks_away(code)) return 1;
  auto record = PushDirectory::make(parent);
  if (!record || !record->record(StageOutOrder(), "{}", "/w", AT_FDCWD)) return 2;
  if (record->take_turn()) return 3;
  const auto last = record->take_last_turn();
  if (!last || !*last || !(*last)->list) return 4;
  if (PushDirectory::take_over(record->path())) return 5;
  return fs::exists(record->path()) ? 0 : 6;
}

}  // namespace

TEST_CASE("without flock, a run delivers at its end, nobody pushes, and no other takes it over") {
  Scratch scratch;
  for (const int code : {ENOSYS, EOPNOTSUPP, ENOLCK}) {
    auto child = ChildProcess::start(Orphan::killed,
                                     [&] { return fault_without_locks(scratch.path(), code); });
    REQUIRE(child);
    CHECK(exit_code_of(*child->wait()) == 0);
  }
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("a run that lives on this host is not taken over") {
  Scratch scratch;
  auto record = must(PushDirectory::make(scratch.path()));
  REQUIRE(record.record(StageOutOrder(), "{}", "/w", AT_FDCWD));
  CHECK(!PushDirectory::take_over(record.path()));
  CHECK(fs::exists(record.path()));
}

TEST_CASE("closing needs no new file, so that a full disk cannot prevent it") {
  Scratch scratch;
  auto record = must(PushDirectory::make(scratch.path()));
  REQUIRE(record.record(StageOutOrder(), "{}", "/w", AT_FDCWD));
  const auto files = [&] {
    return std::distance(fs::directory_iterator(record.path()), fs::directory_iterator());
  };
  const auto before = files();
  const auto push = must(PushDirectory::open(record.path()));
  CHECK_FALSE(push.is_closed());
  auto turn = must(push.take_turn());
  REQUIRE(turn);
  REQUIRE(record.close());
  CHECK(files() == before);
  CHECK(push.is_closed());
  // A push that is under way has the list until it ends.
  auto last = record.take_last_turn();
  REQUIRE(last);
  CHECK_FALSE(*last);
  turn.reset();
  last = record.take_last_turn();
  REQUIRE(last);
  CHECK(*last);
}
