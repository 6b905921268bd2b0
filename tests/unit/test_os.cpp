#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/os/permissions.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

struct Place {
  Scratch scratch;
  Fd fd{::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

  [[nodiscard]] std::ptrdiff_t names() const {
    const std::filesystem::directory_iterator all(scratch.path());
    return std::distance(begin(all), end(all));
  }
};

}  // namespace

TEST_CASE("a file is replaced as a whole, with its mode") {
  ::umask(022);
  const Place place;
  REQUIRE(replace_file(place.fd.get(), "file", "a longer text", 0600));
  REQUIRE(replace_file(place.fd.get(), "file", "text", 0640));
  CHECK(must(read_file(place.fd.get(), "file", 100)) == "text");
  struct stat info {};
  REQUIRE(::fstatat(place.fd.get(), "file", &info, 0) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  CHECK(place.names() == 1);
}

TEST_CASE("what could not be replaced is as it was, and no temporary stays") {
  const Place place;
  std::filesystem::create_directories(place.scratch / "taken/below");
  CHECK(must_fail(replace_file(place.fd.get(), "taken", "text", 0600)).what.starts_with("taken: "));
  CHECK(std::filesystem::is_directory(place.scratch / "taken/below"));
  CHECK(place.names() == 1);
}

TEST_CASE("file: what is read at an offset ends where the file does, and faults have their codes") {
  const Place place;
  const auto file = must(open_at(place.fd.get(), "f", O_RDWR | O_CREAT, 0600));
  const int fd = file.get();
  const std::uint32_t number = 0x64636261;
  REQUIRE(pwrite_all(fd, record_bytes(number), 3));
  char text[8] = {};
  CHECK(pread_all(fd, std::as_writable_bytes(std::span(text)), 1).value() == 6);
  CHECK(std::string_view(text, 6) == std::string_view("\0\0abcd", 6));
  CHECK(pread_all(fd, std::as_writable_bytes(std::span(text)), 7).value() == 0);
  CHECK(pread_all(-1, std::as_writable_bytes(std::span(text)), 0).error().code == EBADF);
  CHECK(pwrite_all(-1, record_bytes(number), 0).error().code == EBADF);
}

namespace {

std::multiset<std::string> names_of(DirectoryStream& stream) {
  std::multiset<std::string> names;
  while (const auto name = stream.next()) names.emplace(*name);
  return names;
}

}  // namespace

TEST_CASE("every name of a directory but itself and its parent") {
  const Scratch scratch;
  for (const char* name : {"a", ".hidden", "...", "b\nc"}) std::ofstream(scratch / name) << name;
  auto stream = DirectoryStream::at(AT_FDCWD, scratch.path().string());
  CHECK(names_of(stream) == std::multiset<std::string>{"a", ".hidden", "...", "b\nc"});
  CHECK(stream.code() == 0);
  CHECK(!stream.next());
}

TEST_CASE("an open directory is read anew, or taken over") {
  const Scratch scratch;
  std::ofstream(scratch / "a") << "a";
  Fd directory(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 2; ++i) {
    auto stream = DirectoryStream::at(directory.get());
    CHECK(names_of(stream).size() == 1);
  }
  const int number = directory.get();
  {
    DirectoryStream stream(std::move(directory));
    CHECK(names_of(stream).size() == 1);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("what is no directory has no names, and says why") {
  const Scratch scratch;
  std::ofstream(scratch / "file") << "x";
  auto missing = DirectoryStream::at(AT_FDCWD, scratch / "none");
  CHECK(!missing.next());
  CHECK(missing.code() == ENOENT);
  DirectoryStream file(Fd(::open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC)));
  CHECK(!file.next());
  CHECK(file.code() == ENOTDIR);
  DirectoryStream none{Fd()};
  CHECK(none.code() == EBADF);
}

// The users that a directory lets in.

TEST_CASE(
    "let_in() replaces the users that a directory lets in, and closes it when there are none") {
  const Scratch scratch;
  const Fd directory(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Status set = let_in(directory.get(), {20'001, 20'002});
  if (!set && set.error().code == EOPNOTSUPP) {
    MESSAGE("skipped: this file system has no ACLs");
    return;
  }
  REQUIRE(set);
  struct stat info {};
  REQUIRE(::fstat(directory.get(), &info) == 0);
  // They pass through and list nothing. The mask stands where a group's rights do.
  CHECK((info.st_mode & 07777) == 0710);
  CHECK(::fgetxattr(directory.get(), "system.posix_acl_access", nullptr, 0) == 4 + 6 * 8);
  REQUIRE(let_in(directory.get(), {20'001}));
  CHECK(::fgetxattr(directory.get(), "system.posix_acl_access", nullptr, 0) == 4 + 5 * 8);
  REQUIRE(let_in(directory.get(), {}));
  CHECK(::fgetxattr(directory.get(), "system.posix_acl_access", nullptr, 0) < 0);
  REQUIRE(::fstat(directory.get(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
}

TEST_CASE("local_user() knows the users of /etc/passwd") {
  CHECK(must(local_user("root")).uid == 0);
  CHECK_FALSE(local_user("no such user"));
}

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::uint64_t of_node() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("the smallest limit of a cgroup and of those around it counts") {
  const Scratch scratch;
  const std::string proc = scratch / "proc";
  std::string options;
  std::string text;
  std::string file;
  std::string none;
  SUBCASE("version 1") {
    options = " rw - cgroup x rw,memory\n", text = "7:cpu:/a\n4:memory:/job/step\n";
    file = "memory.limit_in_bytes", none = "9223372036854771712\n";
  }
  SUBCASE("version 2") {
    options = " rw - cgroup2 x rw\n", text = "0::/job/step\n";
    file = "memory.max", none = "max\n";
  }
  write(proc + "/self/mountinfo", "30 24 0:26 / " + (scratch / "cg") + options);
  write(proc + "/self/cgroup", text);
  const fs::path job = scratch.path() / "cg/job";
  CHECK(memory_limit(proc) == of_node());
  write(job / "step" / file, none);
  write(job / file, none);
  CHECK(memory_limit(proc) == of_node());
  write(job / file, "1048576\n");
  CHECK(memory_limit(proc) == 1048576);
  write(job / "step" / file, "4096\n");
  CHECK(memory_limit(proc) == 4096);
}

TEST_CASE("without cgroups, the node's memory counts") {
  const Scratch scratch;
  CHECK(memory_limit(scratch / "proc") == of_node());
}

namespace {

// Ends by a signal only.
int wait_for_ever() {
  for (;;) ::pause();
}

bool is_there(pid_t pid) { return ::kill(pid, 0) == 0; }

}  // namespace

TEST_CASE("what its body returns is a child's exit code") {
  auto child = must(ChildProcess::start(Orphan::killed, [] { return 7; }));
  CHECK(child);
  CHECK(exit_code_of(must(child.wait())) == 7);
  CHECK_FALSE(child);
  CHECK_FALSE(child.wait());
  CHECK_FALSE(child.reap());
}

TEST_CASE("a child that runs is not reaped, and one that a signal has ended says so") {
  auto child = must(ChildProcess::start(Orphan::killed, wait_for_ever));
  CHECK_FALSE(child.reap());
  CHECK(child);
  child.signal(SIGKILL);  // doctest has handlers for the milder ones
  CHECK(exit_code_of(child.wait().value_or(0)) == 128 + SIGKILL);
}

TEST_CASE("nothing is sent to a child that was waited for") {
  auto child = must(ChildProcess::start(Orphan::killed, [] { return 0; }));
  static_cast<void>(child.wait());
  child.signal_group(SIGKILL);  // kill(0) would be this test's own group
  child.signal(SIGKILL);
  CHECK(child.pid() == 0);
}

TEST_CASE("an owner's end is that of its child, unless it leaves it") {
  pid_t killed = 0;
  pid_t left = 0;
  {
    auto one = must(ChildProcess::start(Orphan::killed, wait_for_ever));
    auto other = must(ChildProcess::start(Orphan::left, wait_for_ever));
    const ChildProcess moved = std::move(one);
    CHECK_FALSE(one);
    killed = moved.pid();
    left = other.pid();
  }
  CHECK_FALSE(is_there(killed));
  REQUIRE(is_there(left));
  ::kill(left, SIGKILL);
  CHECK(::waitpid(left, nullptr, 0) == left);
}

TEST_CASE("a child that another part of the program has waited for is given up") {
  auto child = must(ChildProcess::start(Orphan::killed, [] { return 0; }));
  REQUIRE(::waitpid(child.pid(), nullptr, 0) == child.pid());
  CHECK_FALSE(child.reap());
  CHECK_FALSE(child);
}

TEST_CASE("an answer in time comes whole, and an empty one is an answer") {
  CHECK(ask_apart(20s, [] { return std::string("two\nlines"); }) == "two\nlines");
  CHECK(ask_apart(20s, [] { return std::string(); }) == "");
  CHECK(ask_apart(20s, [] { return std::string(60'000, 'x'); }) == std::string(60'000, 'x'));
}

TEST_CASE("a question that hangs costs the limit, and holds nothing of this process") {
  auto held = must(make_pipe());
  const auto begun = std::chrono::steady_clock::now();
  const auto hang = [] {
    ::sleep(20);
    return std::string("late");
  };
  CHECK_FALSE(ask_apart(50ms, hang));
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  held.write = Fd();
  char byte = 0;
  CHECK(::read(held.read.get(), &byte, 1) == 0);  // would wait for whoever holds the other end
}
