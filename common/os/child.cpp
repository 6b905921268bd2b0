#include "common/os/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

}  // namespace nodestage
