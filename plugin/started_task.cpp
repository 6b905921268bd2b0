#include "plugin/started_task.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "common/os/child.hpp"
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

namespace {

constexpr std::size_t k_most_bytes = 1000;
constexpr std::time_t k_early_s = 5;  // Slurm's clock, and its rounding

constexpr std::string_view k_at_limit = "the job's time limit has come before its data were staged";
constexpr std::string_view k_canceled = "the job was canceled before its data were staged";
constexpr std::string_view k_either =
    "the job has reached its time limit, or was canceled, before its data were staged";

class Text {
 public:
  void set(std::string_view text) { size_ = text.copy(bytes_.data(), bytes_.size()); }
  void write_to(int fd) const { static_cast<void>(!::write(fd, bytes_.data(), size_)); }
  [[nodiscard]] bool is_empty() const { return size_ == 0; }

 private:
  std::array<char, k_most_bytes> bytes_{};
  std::size_t size_ = 0;
};

// What the handler reads. A new line is written to the text that it does not read.
struct LastLine {
  int fd = -1;  // -1: nothing is said
  std::time_t limit = 0;
  Text beginning;
  std::array<Text, 2> progress;
  std::atomic<unsigned> current = 0;
};
constinit LastLine last_line;

void put(std::string_view text) {
  static_cast<void>(!::write(last_line.fd, text.data(), text.size()));
}

std::string_view reason() {
  if (last_line.limit == 0) return k_either;
  return ::time(nullptr) + k_early_s >= last_line.limit ? k_at_limit : k_canceled;
}

void say_and_die(int signal) {
  ::signal(signal, SIG_DFL);
  if (last_line.fd >= 0) {
    last_line.beginning.write_to(last_line.fd);
    put(reason());
    const Text& progress = last_line.progress[last_line.current];
    if (!progress.is_empty()) put(": ");
    progress.write_to(last_line.fd);
    put("\n");
  }
  ::raise(signal);
}

}  // namespace

DeadlySignals::DeadlySignals(int fd, const Words& words) {
  last_line.fd = words.speaks ? fd : -1;
  last_line.limit = words.limit;
  last_line.beginning.set(words.beginning);
  note_progress("");
  struct sigaction deadly {};
  deadly.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &deadly, &old_int_);
  deadly.sa_handler = say_and_die;
  deadly.sa_flags = SA_NODEFER;
  ::sigaction(SIGTERM, &deadly, &old_term_);
  sigset_t both;
  ::sigemptyset(&both);
  ::sigaddset(&both, SIGINT);
  ::sigaddset(&both, SIGTERM);
  ::sigprocmask(SIG_UNBLOCK, &both, &old_mask_);
}

DeadlySignals::~DeadlySignals() {
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  last_line.fd = -1;
}

void DeadlySignals::note_progress(std::string_view line) {
  const unsigned next = 1 - last_line.current;
  last_line.progress[next].set(line);
  last_line.current = next;
}

}  // namespace nodestage
