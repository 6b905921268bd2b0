// A program in the worker's sandbox, which does what its arguments say and prints how it went. Not
// sanitized: the sanitizers need what the sandbox forbids.
//   confined [--keep-special] PLACE ATTEMPT...      PLACE: where it may write; "-": nowhere
//   confined --relay - ATTEMPT...                   in that of a process that relays
//   confined --serve - ATTEMPT...                   in that of one that serves an image
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "daemon/worker/sandbox/sandbox.hpp"

namespace {

using Arguments = char**;

int written(int fd) { return fd < 0 ? -1 : static_cast<int>(write(fd, "x", 1)) - 1; }

long call(long number, long first = 0, long second = 0, long third = 0) {
  return syscall(number, first, second, third, 0L, 0L);
}

// What a delivery of results asks of a file of a running job.
long lease_and_sync(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0 || fcntl(fd, F_SETLEASE, F_UNLCK) != 0) return -1;
  return fdatasync(fd);
}

long lower_priority() {
  return setpriority(PRIO_PROCESS, 0, 19) == 0 ? call(SYS_ioprio_set, 1, 0, 3 << 13) : -1;
}

int in_thread(const char* path) {
  int result = -1;
  int code = 0;
  std::thread([&] {
    result = written(open(path, O_WRONLY | O_CREAT, 0600));
    code = errno;
  }).join();
  errno = code;
  return result;
}

int open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(limit.rlim_max);
}

int dump_bytes() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  return static_cast<int>(limit.rlim_max);
}

int in_i386_abi() {
  long result = 0;
#ifdef __x86_64__
  asm volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");  // getpid
#else
  raise(SIGSYS);
#endif
  return static_cast<int>(result);
}

// Two sockets of this process that meet on the loopback interface, and say something.
long talk(int family) {
  const int server = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // The address of all interfaces leads to this host.
  if (bind(server, at, size) != 0 || listen(server, 1) != 0 || getsockname(server, at, &size) != 0)
    return -1;
  if (connect(client, at, size) != 0) return -1;
  pollfd entry{server, POLLIN, 0};
  poll(&entry, 1, 60'000);
  const int accepted = accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
  char byte = 'x';
  if (accepted < 0 || send(client, &byte, 1, MSG_NOSIGNAL) != 1 || recv(accepted, &byte, 1, 0) != 1)
    return -1;
  return shutdown(client, SHUT_WR);
}

// What is written to what was open before, in a thread.
long ring(const char* path) {
  static int fd = -1;
  if (fd < 0) {
    fd = open(path, O_RDWR);
    return fd;
  }
  long result = -1;
  std::thread([&result] { result = pwrite(fd, "x", 1, 0) - 1; }).join();
  return result == 0 ? ftruncate(fd, 3) : result;
}

// What is tried, and how many arguments it takes. -1 and errno: refused.
struct Attempt {
  int arguments;
  long (*run)(Arguments at);
};

const std::map<std::string, Attempt> k_attempts = {
    {"create",
     {1, [](Arguments at) -> long { return written(open(at[0], O_WRONLY | O_CREAT, 0600)); }}},
    {"overwrite", {1, [](Arguments at) -> long { return written(open(at[0], O_WRONLY)); }}},
    {"truncate", {1, [](Arguments at) -> long { return truncate(at[0], 0); }}},
    {"list",
     {1, [](Arguments at) -> long { return open(at[0], O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0; }}},
    {"look", {1, [](Arguments at) -> long { return access(at[0], R_OK); }}},
    {"read", {1, [](Arguments at) -> long { return open(at[0], O_RDONLY) < 0 ? -1 : 0; }}},
    {"lease", {1, [](Arguments at) -> long { return lease_and_sync(at[0]); }}},
    {"priority", {0, [](Arguments) -> long { return lower_priority(); }}},
    {"remove", {1, [](Arguments at) -> long { return unlink(at[0]); }}},
    {"rmdir", {1, [](Arguments at) -> long { return rmdir(at[0]); }}},
    {"mkdir", {1, [](Arguments at) -> long { return mkdir(at[0], 0700); }}},
    {"symlink", {1, [](Arguments at) -> long { return symlink("x", at[0]); }}},
    {"fifo", {1, [](Arguments at) -> long { return mkfifoat(AT_FDCWD, at[0], 0600); }}},
    {"socket-at",
     {1, [](Arguments at) -> long { return mknodat(AT_FDCWD, at[0], S_IFSOCK | 0600, 0); }}},
    {"device-at",
     {1, [](Arguments at) -> long { return mknodat(AT_FDCWD, at[0], S_IFCHR | 0600, 0); }}},
    {"socket-file", {1, [](Arguments at) -> long { return mknod(at[0], S_IFSOCK | 0600, 0); }}},
    {"rename", {2, [](Arguments at) -> long { return rename(at[0], at[1]); }}},
    {"link", {2, [](Arguments at) -> long { return link(at[0], at[1]); }}},
    {"in-thread", {1, [](Arguments at) -> long { return in_thread(at[0]); }}},
    {"open-before", {0, [](Arguments) -> long { return written(STDERR_FILENO); }}},
    {"open-files", {0, [](Arguments) -> long { return open_files(); }}},
    {"dump-bytes", {0, [](Arguments) -> long { return dump_bytes(); }}},
    {"unknown-call", {0, [](Arguments) -> long { return call(SYS_memfd_create); }}},
    {"clone3", {0, [](Arguments) -> long { return call(SYS_clone3); }}},
    {"limits",
     {0,
      [](Arguments) -> long {
        const rlimit limit{1, 1};
        return setrlimit(RLIMIT_CPU, &limit);
      }}},
    {"abort", {0, [](Arguments) -> long { abort(); }}},
    {"execve", {0, [](Arguments) -> long { return execl("/bin/true", "true", nullptr); }}},
    {"system", {0, [](Arguments) -> long { return system("true"); }}},
    {"execveat", {0, [](Arguments) -> long { return call(SYS_execveat); }}},
    {"fork", {0, [](Arguments) -> long { return fork(); }}},
    {"vfork", {0, [](Arguments) -> long { return call(SYS_vfork); }}},
    {"clone-namespace",
     {0, [](Arguments) -> long { return call(SYS_clone, CLONE_NEWUSER | SIGCHLD); }}},
    {"unshare", {0, [](Arguments) -> long { return unshare(CLONE_NEWUSER); }}},
    {"setns", {0, [](Arguments) -> long { return setns(0, 0); }}},
    {"ptrace", {0, [](Arguments) -> long { return ptrace(PTRACE_TRACEME); }}},
    {"read-memory", {0, [](Arguments) -> long { return call(SYS_process_vm_readv); }}},
    {"kill", {0, [](Arguments) -> long { return kill(getppid(), 0); }}},
    {"signal-by-thread",
     {0, [](Arguments) -> long { return call(SYS_tgkill, getppid(), getppid(), 0); }}},
    {"tcp", {0, [](Arguments) -> long { return socket(AF_INET, SOCK_STREAM, 0); }}},
    {"unix", {0, [](Arguments) -> long { return socket(AF_UNIX, SOCK_STREAM, 0); }}},
    {"udp", {0, [](Arguments) -> long { return socket(AF_INET, SOCK_DGRAM, 0); }}},
    {"raw", {0, [](Arguments) -> long { return socket(AF_INET, SOCK_RAW, 0); }}},
    {"netlink", {0, [](Arguments) -> long { return socket(AF_NETLINK, SOCK_RAW, 0); }}},
    {"talk-4", {0, [](Arguments) -> long { return talk(AF_INET); }}},
    {"talk-6", {0, [](Arguments) -> long { return talk(AF_INET6); }}},
    {"ring", {1, [](Arguments at) -> long { return ring(at[0]); }}},
    {"mode", {1, [](Arguments at) -> long { return chmod(at[0], 0777); }}},
    {"socketpair", {0, [](Arguments) -> long { return call(SYS_socketpair); }}},
    {"mount", {0, [](Arguments) -> long { return call(SYS_mount); }}},
    {"chroot", {0, [](Arguments) -> long { return chroot("/"); }}},
    {"setuid", {0, [](Arguments) -> long { return call(SYS_setuid, getuid()); }}},
    {"bpf", {0, [](Arguments) -> long { return call(SYS_bpf); }}},
    {"perf", {0, [](Arguments) -> long { return call(SYS_perf_event_open); }}},
    {"keyctl", {0, [](Arguments) -> long { return call(SYS_keyctl); }}},
    {"io-uring", {0, [](Arguments) -> long { return call(SYS_io_uring_setup, 1); }}},
    {"userfaultfd", {0, [](Arguments) -> long { return call(SYS_userfaultfd); }}},
    {"module", {0, [](Arguments) -> long { return call(SYS_init_module); }}},
    {"by-handle", {0, [](Arguments) -> long { return call(SYS_open_by_handle_at); }}},
    {"i386", {0, [](Arguments) -> long { return in_i386_abi(); }}},
};

// As under a unit whose SystemCallFilter= answers `code` to what a sandbox is made with.
int try_refused(int code) {
  void* const filter = seccomp_init(SCMP_ACT_ALLOW);
  for (const char* call :
       {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"}) {
    const int number = seccomp_syscall_resolve_name(call);
    if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<unsigned>(code)), number, 0) != 0)
      return 4;
  }
  if (seccomp_load(filter) != 0) return 5;
  const auto sandbox =
      nodestage::enter_sandbox(nodestage::Profile::decode, nodestage::Special::skip, {});
  printf("%d%d\nfault: %s\nlacking: %s\n", sandbox.writes_confined, sandbox.calls_filtered,
         sandbox.fault.c_str(), sandbox.lacking.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto special = nodestage::Special::skip;
  auto profile = nodestage::Profile::decode;
  if (argc > 1 && strcmp(argv[1], "--relay") == 0) {
    profile = nodestage::Profile::relay;
    ++argv;
    --argc;
  }
  if (argc > 1 && strcmp(argv[1], "--serve") == 0) {
    profile = nodestage::Profile::serve;
    ++argv;
    --argc;
  }
  if (argc > 1 && strcmp(argv[1], "--keep-special") == 0) {
    special = nodestage::Special::keep;
    ++argv;
    --argc;
  }
  if (argc == 3 && strcmp(argv[1], "--refused") == 0) return try_refused(atoi(argv[2]));
  if (argc < 2) return 2;
  std::vector<nodestage::Fd> places;
  if (strcmp(argv[1], "-") != 0)
    places.emplace_back(open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (char** at = argv + 2; profile != nodestage::Profile::decode && *at != nullptr; ++at) {
    if (strcmp(*at, "ring") == 0) ring(at[1]);
  }
  const auto sandbox = nodestage::enter_sandbox(profile, special, places);
  setvbuf(stdout, nullptr, _IONBF, 0);
  printf("%d%d\n", sandbox.writes_confined, sandbox.calls_filtered);
  for (char** at = argv + 2; *at != nullptr;) {
    const auto found = k_attempts.find(*at);
    if (found == k_attempts.end() || at + found->second.arguments >= argv + argc) return 3;
    errno = 0;
    const long result = found->second.run(at + 1);
    printf("%s: %s %ld\n", *at, result == -1 ? strerror(errno) : "yes", result);
    at += 1 + found->second.arguments;
  }
  return 0;
}
