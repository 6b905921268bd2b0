#include <doctest/doctest.h>

#include <cerrno>

#include "daemon/worker/copy/copy_leaf.hpp"
#include "daemon/worker/read/source.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("a file system that wants a ticket is named as the cause, whatever is read") {
  for (const int code : {ENOKEY, EKEYEXPIRED, EKEYREVOKED, EKEYREJECTED}) {
    const std::string cause = std::strerror(code);
    const std::string advice =
        "\nIts file system requires a ticket or token (Kerberos, AFS) that staging";
    CHECK(open_fault("/p/d.tar", code).text().find("/p/d.tar: " + cause + advice) == 0);
    CHECK(unreadable_source("/p/d/f", code)
              .text()
              .find("/p/d/f: cannot be read: " + cause + advice) == 0);
  }
}

TEST_CASE("other faults at opening have an advice of their own") {
  CHECK(open_fault("/p/d.tar", ENOENT).text() ==
        "/p/d.tar: No such file or directory\nCheck the path: ls -l /p/d.tar");
  const std::string denied = open_fault("/p/d.tar", EACCES).text();
  CHECK(denied.find("/p/d.tar: Permission denied\nThe job's user must be able to read it: namei -l "
                    "/p/d.tar") == 0);
  CHECK(has(denied, "as with Kerberos"));
  CHECK(has(open_fault("/p/d.tar", EIO).text(), "Is its file system mounted"));
}
