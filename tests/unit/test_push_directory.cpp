#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

#include "cli/base/private_directory.hpp"
#include "common/os/child.hpp"
#include "scratch.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

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
  auto record = PushDirectory::make(scratch.path());
  REQUIRE(record);
  REQUIRE(record->record(StageOutOrder(), "{}", "/w", AT_FDCWD));
  CHECK(!PushDirectory::take_over(record->path()));
  CHECK(fs::exists(record->path()));
}

TEST_CASE("closing needs no new file, so that a full disk cannot prevent it") {
  Scratch scratch;
  auto record = PushDirectory::make(scratch.path());
  REQUIRE(record);
  REQUIRE(record->record(StageOutOrder(), "{}", "/w", AT_FDCWD));
  const auto files = [&] {
    return std::distance(fs::directory_iterator(record->path()), fs::directory_iterator());
  };
  const auto before = files();
  const auto push = PushDirectory::open(record->path());
  REQUIRE(push);
  CHECK_FALSE(push->is_closed());
  auto turn = push->take_turn();
  REQUIRE(turn);
  REQUIRE(*turn);
  REQUIRE(record->close());
  CHECK(files() == before);
  CHECK(push->is_closed());
  // A push that is under way has the list until it ends.
  auto last = record->take_last_turn();
  REQUIRE(last);
  CHECK_FALSE(*last);
  turn->reset();
  last = record->take_last_turn();
  REQUIRE(last);
  CHECK(*last);
}
