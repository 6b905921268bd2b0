// The users that a directory lets in.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/os/file.hpp"
#include "common/os/permissions.hpp"
#include "scratch.hpp"

using namespace nodestage;

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
  const auto root = local_user("root");
  REQUIRE(root);
  CHECK(root->uid == 0);
  CHECK_FALSE(local_user("no such user"));
}
