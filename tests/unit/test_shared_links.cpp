#include <doctest/doctest.h>

#include "daemon/worker/copy/copied_directories.hpp"

using namespace nodestage;

namespace {

struct stat file(ino_t inode, nlink_t links) {
  struct stat info {};
  info.st_ino = inode;
  info.st_nlink = links;
  return info;
}

}  // namespace

TEST_CASE("whoever copies a file makes the links that others met meanwhile") {
  SharedLinks<std::string> links;
  using Turn = SharedLinks<std::string>::Met::Turn;
  CHECK(links.meet(file(1, 4), "a", "a").turn == Turn::copy);
  CHECK(links.meet(file(2, 2), "x", "x").turn == Turn::copy);
  CHECK(links.meet(file(1, 4), "b", "b").turn == Turn::left);
  CHECK(links.meet(file(1, 4), "c", "c").turn == Turn::left);
  CHECK(links.done(file(1, 4)) == std::vector<std::string>{"b", "c"});
  const auto last = links.meet(file(1, 4), "d", "d");
  CHECK(last.turn == Turn::link);
  CHECK(last.first == "a");
  // All names were met: one more is a new file, for the source has changed.
  CHECK(links.meet(file(1, 4), "e", "e").turn == Turn::copy);
  CHECK(links.meet(file(2, 2), "y", "y").turn == Turn::left);
  CHECK(links.done(file(2, 2)) == std::vector<std::string>{"y"});
  CHECK(links.meet(file(2, 2), "z", "z").turn == Turn::copy);
}
