#include "cli/slurm_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/child.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t k_most_bytes = std::size_t{256} << 20;
constexpr int k_cannot_run = 127;

void leave_job() {
  static constexpr std::string_view k_defaults[] = {
      "SLURM_CONF", "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION"};
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("SLURM_") &&
        std::find(std::begin(k_defaults), std::end(k_defaults), name) == std::end(k_defaults))
      names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

[[noreturn]] void become(const std::vector<std::string>& words, Complaints complaints, int out) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  if (complaints == Complaints::hidden) ::dup2(nothing, STDERR_FILENO);
  leave_job();
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(k_cannot_run);
}

// Until the end of what it prints; false when the time is over or it is too much.
bool collect(int fd, Clock::time_point deadline, std::string& text) {
  char block[16 * 1024];
  while (text.size() < k_most_bytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{fd, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&wanted, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(fd, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    text.append(block, static_cast<std::size_t>(count));
  }
  return false;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<Printed> run_slurm_command(const std::vector<std::string>& words, Complaints complaints,
                                  std::chrono::seconds limit) {
  TRY_ASSIGN(Pipe pipe, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) become(words, complaints, pipe.write.get());
  pipe.write.reset();
  Printed printed;
  const bool in_time = collect(pipe.read.get(), Clock::now() + limit, printed.text);
  if (!in_time) ::kill(pid, SIGTERM);  // srun cancels what it has asked for
  printed.code = wait_for(pid);
  if (!in_time) return Error{ETIMEDOUT, words[0] + " took too long"};
  if (printed.code == k_cannot_run) return Error{ENOENT, words[0] + " cannot be run"};
  return printed;
}

}  // namespace nodestage
