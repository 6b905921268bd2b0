#include <doctest/doctest.h>
#include <fcntl.h>

#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "piece_run.hpp"

using namespace nodestage;

namespace {

// One file, examined, then changed, then copied.
class ChangingFile {
 public:
  explicit ChangingFile(std::size_t size) : dir_(open_scratch()), content_(size, 'x') {
    write_file(scratch_ / "from", content_);
    from_ = Fd(::open((scratch_ / "from").c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::fstat(from_.get(), &info_) == 0);
  }

  void resize(std::size_t size) {
    REQUIRE(::ftruncate(from_.get(), static_cast<off_t>(size)) == 0);
  }

  Status copy() {
    Fd to(::open((scratch_ / "to").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return copy_file({from_.get(), info_, "dir/from"}, std::move(to), meter_, space_);
  }

  [[nodiscard]] bool is_whole() const { return file_text(scratch_ / "to") == content_; }
  [[nodiscard]] const std::atomic<std::uint64_t>& bytes_read() const { return meter_.bytes_read; }

 private:
  [[nodiscard]] Fd open_scratch() const {
    return Fd(::open(scratch_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }

  Scratch scratch_;
  RateLimit rate_{-1};
  const std::atomic<bool> stop_ = false;
  Meter meter_{rate_, stop_};
  Fd dir_;
  Allowance allowance_{{-1, -1, dir_.get(), 0, "n1"}, stop_};
  Space space_{dir_.get(), allowance_};
  std::string content_;
  Fd from_;
  struct stat info_ {};
};

constexpr std::size_t k_small = 3000;
constexpr std::size_t k_medium = 700'000;
constexpr std::size_t k_large = 9'000'000;

}  // namespace

TEST_CASE("a file that became longer is copied as long as it was") {
  for (const std::size_t size : {k_small, k_medium, k_large}) {
    CAPTURE(size);
    ChangingFile file(size);
    file.resize(size * 2);
    CHECK(file.copy());
    CHECK(file.is_whole());
    CHECK(file.bytes_read() == size);
  }
}

TEST_CASE("a file that became shorter was changed") {
  for (const std::size_t size : {k_small, k_medium, k_large}) {
    for (const std::size_t left : {std::size_t{0}, size / 2, size - 1}) {
      CAPTURE(size);
      CAPTURE(left);
      ChangingFile file(size);
      file.resize(left);
      const Status copied = file.copy();
      REQUIRE_FALSE(copied);
      CHECK(copied.error().code == k_was_changed);
    }
  }
}
