#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/os/file.hpp"
#include "daemon/root/basis/user_locks.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

TEST_CASE("a call under a user's locks: what it does is done, and its errno is the caller's") {
  Scratch scratch;
  fs::create_directory(scratch / "tree");
  const auto top = must(open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY));
  const auto tree = must(open_at(AT_FDCWD, scratch / "tree", O_PATH));
  UserLocks locks;
  const auto remove = [&] { return ::unlinkat(top.get(), "tree", AT_REMOVEDIR) == 0 ? 0 : errno; };
  const UserLocks::Call call{UserLocks::Kind::other, scratch / "tree", 7,
                             {tree.get()},           {top.get()},      remove};
  CHECK(locks.make(call));
  CHECK_FALSE(fs::exists(scratch / "tree"));
  const Error again = must_fail(locks.make(call));
  CHECK(again.code == ENOENT);
  CHECK(again.what == scratch / "tree" + ": No such file or directory");
}

TEST_CASE("the child of such a call has no other descriptor of the daemon's") {
  Scratch scratch;
  const auto used = open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY);
  const auto other = open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY);
  UserLocks locks;
  CHECK(locks.make({UserLocks::Kind::other, "tree", 7, {}, {used->get()}, [&] {
                      const bool has_used = ::fcntl(used->get(), F_GETFD) >= 0;
                      return has_used && ::fcntl(other->get(), F_GETFD) < 0 ? 0 : EBADF;
                    }}));
}

TEST_CASE("a call whose child is killed is a fault, and can be made again") {
  UserLocks locks;
  const auto die = [] { return ::kill(::getpid(), SIGKILL) == 0 ? EAGAIN : errno; };
  CHECK(must_fail(locks.make({UserLocks::Kind::other, "tree", 7, {}, {}, die})).code == EINTR);
  CHECK(locks.make({UserLocks::Kind::other, "tree", 7, {}, {}, [] { return 0; }}));
}

TEST_CASE("of FUSE's connections, those of the user that wait are aborted, and no others") {
  Scratch scratch;
  for (const auto& [name, waiting] : {std::pair("37", "2\n"), {"38", "0\n"}}) {
    write_file(scratch / name + "/waiting", waiting);
    write_file(scratch / name + "/abort", "");
  }
  CHECK(abort_waiting_fuse(::geteuid() + 1, scratch.path()) == 0);
  CHECK(file_text(scratch / "37/abort").empty());
  CHECK(abort_waiting_fuse(::geteuid(), scratch.path()) == 1);
  CHECK(file_text(scratch / "37/abort") == "1");
  CHECK(file_text(scratch / "38/abort").empty());
  CHECK(abort_waiting_fuse(::geteuid(), scratch / "missing") == 0);
}
