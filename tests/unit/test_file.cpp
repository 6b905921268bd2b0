#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <iterator>

#include "common/os/file.hpp"
#include "scratch.hpp"

using namespace nodestage;

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
  const auto text = read_file(place.fd.get(), "file", 100);
  REQUIRE(text);
  CHECK(*text == "text");
  struct stat info {};
  REQUIRE(::fstatat(place.fd.get(), "file", &info, 0) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  CHECK(place.names() == 1);
}

TEST_CASE("what could not be replaced is as it was, and no temporary stays") {
  const Place place;
  std::filesystem::create_directories(place.scratch / "taken/below");
  const Status replaced = replace_file(place.fd.get(), "taken", "text", 0600);
  REQUIRE_FALSE(replaced);
  CHECK(replaced.error().what.starts_with("taken: "));
  CHECK(std::filesystem::is_directory(place.scratch / "taken/below"));
  CHECK(place.names() == 1);
}

TEST_CASE("file: what is read at an offset ends where the file does, and faults have their codes") {
  const Place place;
  const auto file = open_at(place.fd.get(), "f", O_RDWR | O_CREAT, 0600);
  REQUIRE(file);
  const int fd = file->get();
  const std::uint32_t number = 0x64636261;
  REQUIRE(pwrite_all(fd, record_bytes(number), 3));
  char text[8] = {};
  CHECK(pread_all(fd, std::as_writable_bytes(std::span(text)), 1).value() == 6);
  CHECK(std::string_view(text, 6) == std::string_view("\0\0abcd", 6));
  CHECK(pread_all(fd, std::as_writable_bytes(std::span(text)), 7).value() == 0);
  CHECK(pread_all(-1, std::as_writable_bytes(std::span(text)), 0).error().code == EBADF);
  CHECK(pwrite_all(-1, record_bytes(number), 0).error().code == EBADF);
}
