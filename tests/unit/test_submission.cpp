#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string_view>

#include "common/request/submission.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

// As below the mount of a server that is gone.
bool is_dead(std::string_view path) { return path.starts_with("/dead-nfs"); }

}  // namespace

// Takes the place of libc's in this whole program.
extern "C" int stat(const char* path, struct stat* info) noexcept {
  if (is_dead(path)) ::sleep(20);
  return ::fstatat(AT_FDCWD, path, info, 0);
}

TEST_CASE("a source whose file system does not answer is taken as it is written, after a while") {
  const auto begun = std::chrono::steady_clock::now();
  StageRequest request;
  CHECK(add_dataset(request, "/dead-nfs/x.tar/:data"));
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
}

TEST_CASE("a source that can mean one thing only is not looked at") {
  const auto begun = std::chrono::steady_clock::now();
  StageRequest request;
  CHECK(add_dataset(request, "/dead-nfs/x.tar"));
  CHECK(add_venv(request, "/dead-nfs/venv"));
  CHECK(std::chrono::steady_clock::now() - begun < k_ask_patience);
}
