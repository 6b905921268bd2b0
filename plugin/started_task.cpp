#include "plugin/started_task.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/fd.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_environment = 4 << 20;
constexpr int k_execve_fd = 0;  // closed by the task's execve at the other end
constexpr int k_task_fd = 1;    // the task's directory in /proc

bool are_one(const std::string& one, const std::string& other) {
  struct stat first {};
  struct stat second {};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void compare(const std::string& directory, const std::string& beginning) {
  char byte = 0;
  while (::read(k_execve_fd, &byte, 1) < 0 && errno == EINTR) {
  }
  const std::string other = directory_in(
      environment_at_start([] { return read_file(k_task_fd, "environ", k_max_environment); }));
  if (other.empty() || other == directory || are_one(other, directory)) return;
  const std::string line =
      beginning + "warning: this program has SLURM_TMPDIR=" + printable(other) +
      ", but data were staged in " + printable(directory) +
      ", and results are looked for there: a TaskProlog script or another plugin sets the "
      "variable. Use $NODESTAGE_DATASET for data, and tell your administrators.\n";
  static_cast<void>(write_all(STDERR_FILENO, line));
}

}  // namespace

std::string directory_in(std::string_view environment) {
  constexpr std::string_view k_name = "SLURM_TMPDIR=";
  while (!environment.empty()) {
    const std::string_view variable = take_field(environment, '\0');
    if (variable.starts_with(k_name)) return std::string(variable.substr(k_name.size()));
  }
  return {};
}

std::string environment_at_start(const std::function<Result<std::string>()>& read, int looks) {
  for (; looks > 0; --looks) {
    auto environment = read();
    if (!environment) return {};  // it has ended
    if (!environment->empty()) return std::move(*environment);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

void compare_when_started(const std::string& directory, const std::string& beginning) {
  auto pipe = make_pipe();
  auto task = open_at(AT_FDCWD, "/proc/" + std::to_string(::getpid()), O_PATH | O_DIRECTORY);
  if (!pipe || !task) return;
  const pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    // So that neither the task nor slurmstepd gets a child that it does not know.
    if (::fork() != 0) ::_exit(0);
    ::prctl(PR_SET_NAME, "nodestage-check");
    if (place_descriptors({pipe->read.get(), task->get(), STDERR_FILENO}))
      compare(directory, beginning);
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  // Stays open until the execve.
  static_cast<void>(pipe->write.release());
}

}  // namespace nodestage
