#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <set>

#include "common/os/file.hpp"
#include "scratch.hpp"

using namespace nodestage;

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
