// Attack: while an output is delivered, directories to which its links lead are exchanged for links
// out of the job directory, over and over.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "../unit/stage_out_job.hpp"

using namespace nodestage;

namespace {

// Exchanges two names of a directory until the end of its life.
class Exchange {
 public:
  Exchange(fs::path one, fs::path other)
      : thread_([this, one = std::move(one), other = std::move(other)] {
          while (!is_over_) {
            ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
            ++count_;
          }
        }) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    is_over_ = true;
    thread_.join();
  }
  [[nodiscard]] unsigned count() const { return count_; }

 private:
  std::atomic<bool> is_over_ = false;
  std::atomic<unsigned> count_ = 0;
  std::thread thread_;
};

// Of regular files below `root`; no link is followed.
bool has_text(const fs::path& root, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && !entry.is_symlink() && file_text(entry.path()) == text)
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("whatever is exchanged under a link of an output, nothing from outside is delivered") {
  StageOutJob job;
  const fs::path outside = job.target.parent_path() / "outside";
  write_files(outside, {{"file", "secret"}, {"inner/file", "secret"}});
  write_files(job.directory, {{"way/file", "own"}, {"way/inner/file", "own"}});
  fs::create_symlink(outside, job.directory / "swap");
  fs::create_directory(job.directory / "r");
  for (const char* to : {"way", "way/file", "way/inner", "way/inner/file"}) {
    std::string name = to;
    std::replace(name.begin(), name.end(), '/', '-');
    fs::create_symlink(job.directory / to, job.directory / "r" / name);
    fs::create_symlink(fs::path("..") / to, job.directory / "r" / (name + "-too"));
  }
  fs::create_symlink(job.directory / "way", job.directory / "results");
  job.ask("r", "out");
  job.ask("results", "whole/");
  job.ask("results/inner", "inner");
  job.ask("r", "packed.tar");
  const Exchange exchange(job.directory / "way", job.directory / "swap");
  for (unsigned begun = exchange.count(), i = 0; i < 20 || exchange.count() - begun < 200; ++i) {
    job.run();
    REQUIRE_FALSE(has_text(job.target, "secret"));
    const std::string archive = file_text(job.target / "packed.tar");
    REQUIRE(archive.find("secret") == std::string::npos);
    for (const auto& entry : fs::directory_iterator(job.target)) fs::remove_all(entry);
  }
}
