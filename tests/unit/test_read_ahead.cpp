#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <thread>

#include "daemon/worker/read/read_ahead.hpp"
#include "decode_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

struct Reading : Metered {
  explicit Reading(const std::string& path, int rate_fd = -1)
      : Metered(rate_fd), source(must(Source::open(path, meter))) {}
  Source source;
};

// Of a file of data, by up to four threads.
struct FourThreads {
  explicit FourThreads(std::size_t size) : data(sample(size)) { REQUIRE(ahead.start()); }
  const Scratch scratch;
  const std::string data;
  const std::string path = written();
  Reading reading{path};
  ReadAhead ahead{reading.source, 0, {4096, 9, 4}};

 private:
  [[nodiscard]] std::string written() const {
    write_file(scratch / "x", data);
    return scratch / "x";
  }
};

std::string all_of(ReadAhead& ahead) {
  std::string data;
  for (;;) {
    const auto block = must(ahead.next());
    if (block.empty()) break;
    data += DecodeRun::text(block.bytes());
  }
  const auto again = ahead.next();
  CHECK(again);
  CHECK((!again || again->empty()));
  return data;
}

}  // namespace

TEST_CASE("blocks come in order, whoever reads them") {
  const Scratch scratch;
  for (const std::size_t size : {0U, 1U, 4096U, 16384U, 100'000U}) {
    const std::string data = sample(size);
    write_file(scratch / "x", data);
    for (const unsigned in_flight : {1U, 2U, 8U}) {
      for (const std::size_t offset : {std::size_t{0}, size / 3}) {
        Reading reading(scratch / "x");
        ReadAhead ahead(reading.source, offset, {4096, in_flight + 1, in_flight});
        REQUIRE(ahead.start());
        CHECK((all_of(ahead) == data.substr(offset)));
        CHECK(reading.meter.bytes_read == size - offset);
      }
    }
  }
}

TEST_CASE("nobody waits, so no more than two blocks are read ahead") {
  const Scratch scratch;
  write_file(scratch / "x", sample(200'000));
  for (int i = 0; i < 100; ++i) {
    Reading reading(scratch / "x");
    {
      ReadAhead ahead(reading.source, 0, {4096, 9, 4});
      REQUIRE(ahead.start());
      while (reading.meter.bytes_read < 8192) std::this_thread::yield();
    }
    CHECK(reading.meter.bytes_read == 8192);  // all threads have ended
  }
}

TEST_CASE("blocks that are held do not stop the others") {
  FourThreads four(200'000);
  std::deque<Slice> held;
  std::string got;
  for (;;) {
    auto block = must(four.ahead.next());
    if (block.empty()) break;
    got += DecodeRun::text(block.bytes());
    held.push_back(std::move(block));
    if (held.size() > 7) held.pop_front();
  }
  CHECK((got == four.data));
}

TEST_CASE("a file that is shorter than it was ends where it ends") {
  const Scratch scratch;
  const std::string data = sample(100'000);
  write_file(scratch / "x", data);
  Reading reading(scratch / "x");
  std::filesystem::resize_file(scratch / "x", 10'000);
  ReadAhead ahead(reading.source, 0, {4096, 9, 4});
  REQUIRE(ahead.start());
  CHECK((all_of(ahead) == data.substr(0, 10'000)));
}

TEST_CASE("a read that fails is told, and stays") {
  Reading reading("/proc/self/mem");  // a regular file, and nothing is at its start
  ReadAhead ahead(reading.source, 0, {4096, 9, 4});
  REQUIRE(ahead.start());
  for (int i = 0; i < 2; ++i) {
    const Error block = must_fail(ahead.next());
    CHECK(block.code == EIO);
    CHECK(has(block.text(), "cannot be read"));
  }
}

// With this rate the first block alone would take an hour.
TEST_CASE("who goes or stops does not wait for the rate limit") {
  const Scratch scratch;
  write_file(scratch / "x", sample(100'000));
  const Fd rate_fd(::memfd_create("rate", MFD_CLOEXEC));
  const std::uint64_t rate = 1;
  REQUIRE(::pwrite(rate_fd.get(), &rate, sizeof rate, 0) == sizeof rate);
  {
    Reading reading(scratch / "x", rate_fd.get());
    ReadAhead ahead(reading.source, 0, {4096, 9, 4});
    REQUIRE(ahead.start());
  }
  Reading reading(scratch / "x", rate_fd.get());
  ReadAhead ahead(reading.source, 0, {4096, 9, 4});
  REQUIRE(ahead.start());
  reading.stop = true;
  CHECK(is_stopped(must_fail(ahead.next())));
}
