#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/os/child.hpp"
#include "plugin/started_task.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

// The first line that is said on stderr about a task that was to have `directory`, and whose
// program gets `other`. The program runs until that was read, or for a second if nothing is said.
std::string said(const std::string& directory, const char* other, bool is_warned) {
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
    if (is_warned)
      ::execl("/bin/cat", "cat", nullptr);
    else
      ::execl("/bin/sleep", "sleep", "1", nullptr);
    ::_exit(1);
  }
  errors->write.reset();
  std::string text;
  char byte = 0;
  while (!text.ends_with('\n') && ::read(errors->read.get(), &byte, 1) == 1) text += byte;
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

TEST_CASE("started task: a program with another directory is told of, once it has started") {
  const Scratch scratch;
  const std::string ours = scratch / "ours";
  const std::string alias = scratch / "alias";
  std::filesystem::create_directory(ours);
  std::filesystem::create_symlink(ours, alias);
  const std::string text = said(ours, "/elsewhere", true);
  CHECK(text.find("nodestage: n1: warning: this program has SLURM_TMPDIR=/elsewhere, but data were "
                  "staged in " +
                  ours) != std::string::npos);
  for (const char* same : {ours.c_str(), alias.c_str(), static_cast<const char*>(nullptr)})
    CHECK(said(ours, same, false).empty());
}
