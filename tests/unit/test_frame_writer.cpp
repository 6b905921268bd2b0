#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <zstd.h>

#include <thread>

#include "cli/pack/frame_writer.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

struct Written {
  Scratch scratch;
  Status status;
  std::uint64_t bytes = 0;

  Written(const std::string& content, FrameForm form, unsigned threads) {
    auto pipe = must(make_pipe());
    Fd file(::open((scratch / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    std::thread source(
        [&, write = std::move(pipe.write)] { CHECK(write_all(write.get(), content)); });
    FrameWriter writer(std::move(pipe.read), file.get(), form);
    status = writer.run(threads);
    bytes = writer.written();
    source.join();
  }
  [[nodiscard]] std::string file() const { return file_text(scratch / "file"); }
};

// By our own decoder; how many threads it had.
unsigned decode(const std::string& path, std::string& content) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  auto source = must(Source::open(path, meter));
  // As little as one of four datasets has.
  auto decoder = must(Decoder::open(source, {3, std::size_t{32} << 20}));
  content.clear();
  for (;;) {
    const auto block = must(decoder.next());
    if (block.empty()) return decoder.threads();
    content.append(reinterpret_cast<const char*>(block.bytes().data()), block.size());
  }
}

}  // namespace

TEST_CASE("independent frames that tell their size, which any zstd and our threads decode") {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, k_frame_bytes, 2 * k_frame_bytes + 5}) {
    CAPTURE(size);
    const std::string content = noise(size);
    const Written written(content, FrameForm::zstd, 3);
    REQUIRE(written.status);
    const std::string file = written.file();
    CHECK(written.bytes == file.size());
    std::size_t at = 0;
    std::uint64_t told = 0;
    for (std::size_t left = std::max<std::size_t>((size + k_frame_bytes - 1) / k_frame_bytes, 1);
         left > 0; --left) {
      const std::size_t frame = ZSTD_findFrameCompressedSize(file.data() + at, file.size() - at);
      REQUIRE(!ZSTD_isError(frame));
      told += ZSTD_getFrameContentSize(file.data() + at, file.size() - at);
      at += frame;
    }
    CHECK(told == size);
    // The seek table, and nothing else.
    CHECK(ZSTD_findFrameCompressedSize(file.data() + at, file.size() - at) == file.size() - at);
    std::string decoded;
    const unsigned threads = decode(written.scratch / "file", decoded);
    CHECK(decoded == content);
    if (size > k_frame_bytes) CHECK(threads == 3);
    CHECK(std::system(("zstd -qt '" + (written.scratch / "file") + "' --force").c_str()) == 0);
  }
}

TEST_CASE("the number of threads does not change a byte") {
  const std::string content = noise(3 * k_frame_bytes + 17);
  CHECK(Written(content, FrameForm::zstd, 1).file() == Written(content, FrameForm::zstd, 4).file());
}

TEST_CASE("as it is") {
  const std::string content = noise(k_frame_bytes + 3);
  const Written written(content, FrameForm::plain, 4);
  REQUIRE(written.status);
  CHECK(written.file() == content);
}

TEST_CASE("a fault of the target and a stop end it, and let the source go") {
  for (const bool is_stopped : {false, true}) {
    CAPTURE(is_stopped);
    auto pipe = must(make_pipe());
    const Fd full(::open(is_stopped ? "/dev/null" : "/dev/full", O_WRONLY | O_CLOEXEC));
    FrameWriter writer(std::move(pipe.read), full.get(), FrameForm::zstd);
    const auto before = ::signal(SIGPIPE, SIG_IGN);
    std::thread source([&, write = std::move(pipe.write)] {
      const std::string block(1 << 20, 'x');
      while (write_all(write.get(), block)) continue;
    });
    std::thread other([&] {
      if (is_stopped) writer.stop();
    });
    const Status done = writer.run(2);
    source.join();
    other.join();
    ::signal(SIGPIPE, before);
    REQUIRE(!done);
    CHECK(done.error().code == (is_stopped ? ECANCELED : ENOSPC));
  }
}
