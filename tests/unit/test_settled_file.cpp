#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/os/file.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "scratch.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

struct Looked {
  Scratch scratch;
  std::string path = scratch / "file";
  SettleRules rules;
  int waits = 0;
  Fd fd;

  Looked() {
    std::signal(SIGIO, SIG_IGN);
    write("content");
    rules.wait = [this](SettleRules::Time) { ++waits; };
    fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  [[nodiscard]] Fd open_for_writing() const { return Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)); }
  [[nodiscard]] auto look() const { return SettledFile::look(fd.get(), rules); }
};

}  // namespace

TEST_CASE("who has a file open for writing, or mapped so, is seen") {
  const Looked at;
  CHECK(writers_of(at.fd.get()) == Writers::none);
  Fd writer = at.open_for_writing();
  CHECK(writers_of(at.fd.get()) == Writers::some);
  void* const mapped = ::mmap(nullptr, 7, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  writer.reset();
  CHECK(writers_of(at.fd.get()) == Writers::some);
  ::munmap(mapped, 7);
  CHECK(writers_of(at.fd.get()) == Writers::none);
  CHECK(writers_of(-1) == Writers::unknown);
}

TEST_CASE("a source was whole if it looks the same when writers have had their pause") {
  Looked at;
  struct stat before {};
  REQUIRE(::fstat(at.fd.get(), &before) == 0);
  const auto has_held = [&] { return has_held_still(at.fd.get(), before, at.rules); };
  at.rules.young = SettleRules::Time(0);
  CHECK(has_held());
  CHECK(at.waits == 0);
  at.rules.young = std::chrono::hours(1);
  CHECK(has_held());
  CHECK(at.waits == 1);
  CHECK(::link(at.path.c_str(), (at.path + "2").c_str()) == 0);
  CHECK(has_held());
  at.rules.wait = [&](SettleRules::Time) { at.write("other content"); };
  CHECK_FALSE(has_held());
}

TEST_CASE("a file that was changed a moment ago is looked at once more after the tick") {
  Looked at;
  at.rules.tick = std::chrono::hours(1);
  CHECK(at.look());
  CHECK(at.waits == 1);
  at.rules.wait = [&](SettleRules::Time) { at.write("more content"); };
  CHECK_FALSE(at.look());
  at.rules.tick = SettleRules::Time(0);
  at.rules.wait = [&](SettleRules::Time) { FAIL("waits"); };
  CHECK(at.look());
}

TEST_CASE("what is held open for writing is whole once it was quiet for long") {
  Looked at;
  const Fd writer = at.open_for_writing();
  at.rules.quiet = std::chrono::hours(1);
  CHECK_FALSE(at.look());
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::futimens(writer.get(), old) == 0);
  CHECK_FALSE(at.look());  // its ctime is not old
  at.rules.quiet = SettleRules::Time(0);
  const auto settled = at.look();
  REQUIRE(settled);
  CHECK(settled->was_whole());
}

TEST_CASE("a change during the copy is seen: written, opened, replaced, of another mode") {
  Looked at;
  at.rules.tick = SettleRules::Time(0);
  ::usleep(20'000);  // a later change has another time
  const auto settled = at.look();
  REQUIRE(settled);
  CHECK(settled->was_whole());
  SUBCASE("opened") {
    const Fd writer = at.open_for_writing();
    CHECK(settled->is_same());
    CHECK_FALSE(settled->was_whole());
  }
  SUBCASE("written, with the same size") {
    at.write("CONTENT");
    CHECK_FALSE(settled->is_same());
    CHECK_FALSE(settled->was_whole());
  }
  SUBCASE("renamed") {
    fs::rename(at.path, at.path + "2");
    CHECK_FALSE(settled->was_whole());
  }
  SUBCASE("replaced") {
    std::ofstream(at.path + "2") << "content";
    fs::rename(at.path + "2", at.path);
    CHECK_FALSE(settled->was_whole());
  }
}

TEST_CASE("what is written through a mapping that is held open is seen by the file's time") {
  Looked at;
  if (is_tmpfs(at.path)) {
    MESSAGE("skipped: a tmpfs does not keep the time of such writes");
    return;
  }
  at.rules.quiet = SettleRules::Time(0);
  const Fd writer = at.open_for_writing();
  char* const mapped =
      static_cast<char*>(::mmap(nullptr, 7, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0));
  REQUIRE(static_cast<void*>(mapped) != MAP_FAILED);
  mapped[0] = 'C';  // the page is dirty, and further writes are not noticed
  ::usleep(20'000);
  const auto settled = at.look();
  REQUIRE(settled);
  mapped[1] = 'O';
  CHECK_FALSE(settled->is_same());
  ::munmap(mapped, 7);
}

TEST_CASE(
    "in memory, where such writes are not seen, what is held open is not whole, however quiet") {
  if (!is_tmpfs("/dev/shm")) {
    MESSAGE("skipped: no tmpfs");
    return;
  }
  const InMemory memory;
  Looked at;
  at.rules.quiet = SettleRules::Time(0);
  Fd writer = at.open_for_writing();
  CHECK_FALSE(at.look());
  writer.reset();
  CHECK(at.look());
}

TEST_CASE("a directory or FIFO is no file that settles") {
  Looked at;
  at.fd = Fd(::open(at.scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK_FALSE(at.look());
}
