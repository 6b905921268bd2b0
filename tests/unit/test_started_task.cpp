#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "common/os/child.hpp"
#include "plugin/stage_wait.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

// What is said on stderr about a task that was to have `directory`, and whose program gets `other`.
// The program runs until that was said. It has no stderr, which so ends with the process that
// compares.
std::string said(const std::string& directory, const char* other) {
  auto errors = make_pipe();
  auto input = make_pipe();
  REQUIRE(errors);
  REQUIRE(input);
  const pid_t task = ::fork();
  if (task == 0) {
    ::dup2(errors->write.get(), STDERR_FILENO);
    ::dup2(input->read.get(), STDIN_FILENO);
    compare_when_started(directory, "nodestage: n1: ");
    if (other != nullptr)
      ::setenv("SLURM_TMPDIR", other, 1);
    else
      ::unsetenv("SLURM_TMPDIR");
    ::fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC);
    ::execl("/bin/cat", "cat", nullptr);
    ::_exit(1);
  }
  errors->write.reset();
  std::string text;
  char byte = 0;
  while (::read(errors->read.get(), &byte, 1) == 1) text += byte;
  input->write.reset();
  ::waitpid(task, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("started task: SLURM_TMPDIR in an environment") {
  using namespace std::string_view_literals;
  CHECK(directory_in("A=1\0SLURM_TMPDIR=/x/y\0B=2\0"sv) == "/x/y");
  CHECK(directory_in("SLURM_TMPDIR=/x=y"sv) == "/x=y");
  CHECK(directory_in("XSLURM_TMPDIR=/x\0SLURM_TMPDIRS=/y\0"sv).empty());
  CHECK(directory_in("\0\0"sv).empty());
  CHECK(directory_in("").empty());
}

TEST_CASE("started task: an environment that is not there yet is read again") {
  int looks = 0;
  const auto after = [&looks](int empty) {
    looks = 0;
    return environment_at_start(
        [&looks, empty]() -> Result<std::string> {
          return std::string(++looks <= empty ? "" : "A=1");
        },
        5);
  };
  CHECK(after(0) == "A=1");
  CHECK(looks == 1);
  CHECK(after(3) == "A=1");
  CHECK(looks == 4);
  CHECK(after(9).empty());  // a program without a variable
  CHECK(looks == 5);
  const auto gone = []() -> Result<std::string> { return system_error("environ", ESRCH); };
  CHECK(environment_at_start(gone).empty());
}

TEST_CASE("started task: a program with another directory is told of, once it has started") {
  const Scratch scratch;
  const std::string ours = scratch / "ours";
  const std::string alias = scratch / "alias";
  std::filesystem::create_directory(ours);
  std::filesystem::create_symlink(ours, alias);
  const std::string text = said(ours, "/elsewhere");
  CHECK(text.find("nodestage: n1: warning: this program has SLURM_TMPDIR=/elsewhere, but data were "
                  "staged in " +
                  ours) != std::string::npos);
  for (const char* same : {ours.c_str(), alias.c_str(), static_cast<const char*>(nullptr)})
    CHECK(said(ours, same).empty());
}
