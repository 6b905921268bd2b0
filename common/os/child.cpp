#include "common/os/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "common/os/file.hpp"

namespace nodestage {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe2");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<Fd> sealed_text(const char* name, const std::string& text) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("memfd_create");
  TRY(write_all(fd.get(), text));
  if (::lseek(fd.get(), 0, SEEK_SET) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) !=
          0) {
    return system_error("memfd");
  }
  return fd;
}

Status place_descriptors(std::vector<int> from) {
  for (int& fd : from) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 64);  // out of the way of all targets
    if (fd < 0) return system_error("dup");
  }
  const auto count = static_cast<int>(from.size());
  for (int target = 0; target < count; ++target) {
    const int flags = target == count - 1 ? O_CLOEXEC : 0;
    if (::dup3(from[static_cast<std::size_t>(target)], target, flags) < 0)
      return system_error("dup3");
  }
  if (::syscall(SYS_close_range, count, ~0U, 0) != 0) return system_error("close_range");
  return {};
}

void close_all_but(const std::vector<int>& kept) {
  unsigned next = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) ::syscall(SYS_close_range, next, number - 1, 0);
    next = number + 1;
  }
  ::syscall(SYS_close_range, next, ~0U, 0);
}

Status reset_process() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < SIGRTMAX; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setsid();
  ::umask(077);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // The unit protects the daemon from the kernel's OOM killer; a child would inherit that.
  if (const auto score = open_at(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY)) {
    static_cast<void>(!write_all(score->get(), std::string_view("0")));
  }
  if (::chdir("/") != 0) return system_error("chdir");
  return {};
}

std::vector<char*> exec_texts(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

Error exec_worker(const std::string& program) {
  std::vector<std::string> name = {"nodestage-worker"};
  std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"};
  ::execve(program.c_str(), exec_texts(name).data(), exec_texts(environment).data());
  return system_error(program);
}

Result<Fd> open_pid(int pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return system_error("pidfd_open");
  return fd;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    orphan_ = other.orphan_;
  }
  return *this;
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void ChildProcess::signal_group(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

std::optional<int> ChildProcess::reap() { return wait_for(WNOHANG); }

std::optional<int> ChildProcess::wait() { return wait_for(0); }

std::optional<int> ChildProcess::wait_for(int options) {
  if (pid_ <= 0) return {};
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, &status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended == 0) return {};
  const bool is_known = ended == std::exchange(pid_, 0);  // else something else waited for it
  return is_known ? std::optional(status) : std::nullopt;
}

void ChildProcess::end() {
  if (orphan_ == Orphan::left) return;
  signal(SIGKILL);
  wait();
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t k_most_bytes = 64 * 1024;

// Runs in the process that asks. A reader of this program's output waits until no process holds it,
// so nothing but the pipe stays open.
int answer_into(int pipe, const std::function<std::string()>& question) {
  static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
  if (!place_descriptors({pipe})) return 1;
  return write_all(0, question()) ? 0 : 1;
}

// A child that has exited leaves its own child to init.
Status start_apart(int pipe, const std::function<std::string()>& question) {
  const auto fork_and_leave = [&] {
    const auto asking =
        ChildProcess::start(Orphan::left, [&] { return answer_into(pipe, question); });
    return asking ? 0 : 1;
  };
  auto child = ChildProcess::start(Orphan::left, fork_and_leave);
  if (!child) return child.error();
  child->wait();
  return {};
}

// Returns whether there is something to read, or the end.
bool wait_readable(int fd, SteadyClock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()).count();
    pollfd waited{fd, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

std::optional<std::string> ask_apart(std::chrono::milliseconds limit,
                                     const std::function<std::string()>& question) {
  auto pipe = make_pipe();
  if (!pipe) return {};
  const SteadyClock::time_point until = SteadyClock::now() + limit;
  if (!start_apart(pipe->write.get(), question)) return {};
  pipe->write = Fd();
  std::string answer;
  std::array<char, 4096> part{};
  while (answer.size() < k_most_bytes && wait_readable(pipe->read.get(), until)) {
    const ssize_t bytes = ::read(pipe->read.get(), part.data(), part.size());
    if (bytes == 0) return answer;
    if (bytes < 0) return {};
    answer.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return {};
}

std::string own_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string boot_id() {
  const auto text = read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

std::uint64_t start_ticks_of(const std::string& pid) {
  const auto text = read_file(AT_FDCWD, "/proc/" + pid + "/stat", 4096);
  if (!text) return 0;
  // The command's name, in parentheses, can contain any character; field 3 follows it.
  std::istringstream fields(text->substr(std::min(text->rfind(')') + 1, text->size())));
  std::string field;
  std::uint64_t ticks = 0;
  for (int number = 3; number < 22; ++number) fields >> field;
  return fields >> ticks ? ticks : 0;
}

}  // namespace nodestage
