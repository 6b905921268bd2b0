#include "daemon/worker/sandbox/call_filter.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

bool lists(const char* file, const std::string& word) {
  const auto text = read_file(AT_FDCWD, file, 4096);
  return text && text->find(word) != std::string::npos;
}

}  // namespace

int landlock_version() {
  constexpr std::uint32_t k_ask_version = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, k_ask_version);
  if (version >= 0) return static_cast<int>(version);
  const int code = errno;
  if (code == EOPNOTSUPP) return 0;  // switched off
  // A filter of system calls may answer like a kernel without Landlock.
  if (code == ENOSYS && !lists("/sys/kernel/security/lsm", "landlock")) return 0;
  return -code;
}

bool has_seccomp_filters() {
  return lists("/proc/sys/kernel/seccomp/actions_avail", "kill_process");
}

Error confinement_error(const std::string& call, int code) {
  Error error = system_error(call, code);
  if (code == EPERM || code == ENOSYS || code == EACCES)
    error.what += ": refused by a filter of system calls that this process has inherited";
  return error;
}

namespace {

// By name, since not every machine has each call, and not every libseccomp knows each.
constexpr const char* k_allowed[] = {
    // memory
    "brk", "madvise", "membarrier", "mmap", "mprotect", "mremap", "munmap",
    // threads, signals, exit
    "exit", "exit_group", "futex", "getcpu", "gettid", "restart_syscall", "rseq", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "set_robust_list",
    "sigaltstack",
    // facts about this process and this machine
    "getegid", "geteuid", "getgid", "getpid", "getppid", "getrandom", "getrusage", "getuid",
    "sysinfo", "umask", "uname",
    // time
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
    // descriptors
    "close", "close_range", "dup", "dup2", "dup3", "fadvise64", "fcntl", "lseek", "pipe2", "poll",
    "ppoll", "readahead",
    // reading what is open
    "fgetxattr", "flistxattr", "fstat", "fstatfs", "getdents64", "pread64", "preadv", "preadv2",
    "read", "readv"};

// In addition, for a process that opens files, or looks at them by name.
constexpr const char* k_by_name[] = {
    "access",     "faccessat",  "faccessat2", "getxattr", "lgetxattr", "listxattr",
    "llistxattr", "lstat",      "newfstatat", "open",     "openat",    "openat2",
    "readlink",   "readlinkat", "stat",       "statfs",   "statx"};

// In addition, for a process that writes files.
constexpr const char* k_allowed_writing[] = {
    "chmod",     "copy_file_range", "fallocate", "fchmod",    "fchmodat",        "fchmodat2",
    "fdatasync", "fremovexattr",    "fsetxattr", "fsync",     "ftruncate",       "link",
    "linkat",    "lremovexattr",    "lsetxattr", "mkdir",     "mkdirat",         "pwrite64",
    "pwritev",   "pwritev2",        "rename",    "renameat",  "renameat2",       "rmdir",
    "sendfile",  "setxattr",        "symlink",   "symlinkat", "sync_file_range", "syncfs",
    "unlink",    "unlinkat",        "utimensat", "write",     "writev"};

// Calls that no program needs to make or build files.
constexpr const char* k_forbidden[] = {
    // the memory of other processes
    "kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
    // namespaces and mounts
    "chroot", "fsconfig", "fsmount", "fsopen", "mount", "mount_setattr", "move_mount",
    "open_by_handle_at", "open_tree", "personality", "pivot_root", "sethostname", "setns",
    "umount2", "unshare",
    // large parts of the kernel
    "acct", "add_key", "bpf", "delete_module", "finit_module", "init_module", "io_cancel",
    "io_destroy", "io_setup", "io_submit", "io_uring_enter", "io_uring_register", "io_uring_setup",
    "ioperm", "iopl", "kexec_file_load", "kexec_load", "keyctl", "modify_ldt", "perf_event_open",
    "quotactl", "reboot", "request_key", "swapoff", "swapon", "syslog", "userfaultfd", "vhangup"};

// Calls that, in addition, no decoder needs.
constexpr const char* k_deadly[] = {
    // other programs, other processes
    "execve", "execveat", "fork", "kill", "pidfd_send_signal", "rt_sigqueueinfo",
    "rt_tgsigqueueinfo", "tkill", "vfork",
    // networks
    "accept", "socketpair",
    // other rights
    "capset", "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid",
    "setreuid", "setuid"};

// Of these, only a process that talks to other nodes needs any.
constexpr const char* k_network[] = {"accept4", "bind", "connect", "listen"};
constexpr const char* k_on_sockets[] = {"getpeername", "getsockname", "getsockopt",
                                        "recvfrom",    "recvmsg",     "sendmsg",
                                        "sendto",      "setsockopt",  "shutdown"};
// And of these, one that writes to a file that it has open.
constexpr const char* k_on_open_files[] = {"ftruncate", "pwrite64", "write", "writev"};

struct Release {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;  // scmp_filter_ctx is a void*

Error filter_error(const char* what, int code) { return system_error(what, -code); }

template <typename... Conditions>
Status add(const Filter& filter, std::uint32_t action, const char* name,
           const Conditions&... conditions) {
  const int number = ::seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return {};
  const std::initializer_list<scmp_arg_cmp> all = {conditions...};
  const int code = ::seccomp_rule_add_array(filter.get(), action, number,
                                            static_cast<unsigned>(all.size()), all.begin());
  return code == 0 ? Status() : Status(filter_error(name, code));
}

// For speed: before 5.16, the kernel slows a filtered process down by default (speculation controls
// meant for programs that run foreign code, as this one does not), and a filter is a long list.
Status set_attributes(const Filter& filter) {
  // If the call itself is refused, the library only reports that an attribute is not known.
  constexpr std::uint32_t k_action = SECCOMP_RET_KILL_PROCESS;
  if (::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &k_action) != 0)
    return confinement_error("seccomp", errno);
  struct Attribute {
    scmp_filter_attr name;
    std::uint32_t value;
  };
  constexpr Attribute k_needed[] = {{SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS},
                                    {SCMP_FLTATR_CTL_NNP, 1},
                                    {SCMP_FLTATR_API_SYSRAWRC, 1},
                                    {SCMP_FLTATR_CTL_TSYNC, 1}};
  for (const auto& attribute : k_needed) {
    const int code = ::seccomp_attr_set(filter.get(), attribute.name, attribute.value);
    if (code != 0) return filter_error("seccomp_attr_set", code);
  }
  constexpr Attribute k_for_speed[] = {{SCMP_FLTATR_CTL_SSB, 1}, {SCMP_FLTATR_CTL_OPTIMIZE, 2}};
  for (const auto& attribute : k_for_speed)
    static_cast<void>(::seccomp_attr_set(filter.get(), attribute.name, attribute.value));
  return {};
}

constexpr scmp_arg_cmp is(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}

// Calls that are useful or harmful depending on their arguments.
Status add_by_arguments(const Filter& filter) {
  constexpr std::uint64_t k_thread = CLONE_THREAD;
  TRY(add(filter, SCMP_ACT_ALLOW, "clone",
          scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, k_thread, k_thread}));
  TRY(add(filter, SCMP_ACT_KILL_PROCESS, "clone",
          scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, k_thread, 0}));
  // clone3 has its flags in memory, where no filter can look: the C library then uses clone().
  for (const std::uint64_t request : {std::uint64_t{FICLONE}, std::uint64_t{FICLONERANGE}})
    TRY(add(filter, SCMP_ACT_ALLOW, "ioctl", is(1, request)));
  // abort() of this process.
  TRY(add(filter, SCMP_ACT_ALLOW, "tgkill", is(0, static_cast<std::uint64_t>(::getpid()))));
  // Limits can be read but not changed.
  TRY(add(filter, SCMP_ACT_ALLOW, "prlimit64", is(0, 0), is(2, 0)));
  // Names of threads, and of memory (which newer C libraries set).
  constexpr std::uint64_t k_set_vma = 0x53564d41;  // PR_SET_VMA
  for (const std::uint64_t option : {std::uint64_t{PR_SET_NAME}, k_set_vma})
    TRY(add(filter, SCMP_ACT_ALLOW, "prctl", is(0, option)));
  // A worker can lower its own priority (daemon/worker/basis/fault.hpp).
  constexpr std::uint64_t k_io_priority_of_process = 1;  // ioprio_set(2)
  TRY(add(filter, SCMP_ACT_ALLOW, "setpriority", is(0, PRIO_PROCESS), is(1, 0)));
  return add(filter, SCMP_ACT_ALLOW, "ioprio_set", is(0, k_io_priority_of_process), is(1, 0));
}

// What every worker may call, and what none may.
Result<Filter> make_filter() {
  Filter filter(::seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
  if (!filter) return Error{ENOMEM, "seccomp_init failed"};
  TRY(set_attributes(filter));
  for (const char* name : k_allowed) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_forbidden) TRY(add(filter, SCMP_ACT_KILL_PROCESS, name));
  for (const char* name : k_deadly) TRY(add(filter, SCMP_ACT_KILL_PROCESS, name));
  TRY(add_by_arguments(filter));
  return filter;
}

Status load(const Filter& filter) {
  const int code = ::seccomp_load(filter.get());
  return code == 0 ? Status() : Status(confinement_error("seccomp", -code));
}

}  // namespace

Status filter_calls(Special special) {
  TRY_ASSIGN(const Filter filter, make_filter());
  for (const char* name : k_by_name) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_allowed_writing) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_network) TRY(add(filter, SCMP_ACT_KILL_PROCESS, name));
  TRY(add(filter, SCMP_ACT_KILL_PROCESS, "socket"));
  // On the socket that the daemon gave it (common/wire/worker_order.hpp).
  TRY(add(filter, SCMP_ACT_ALLOW, "sendmsg"));
  if (special == Special::keep)
    TRY(add(filter, SCMP_ACT_ALLOW, "mknodat",
            scmp_arg_cmp{2, SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO}));
  return load(filter);
}

Status filter_relay_calls() {
  TRY_ASSIGN(const Filter filter, make_filter());
  for (const char* name : k_by_name) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_on_open_files) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_network) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_on_sockets) TRY(add(filter, SCMP_ACT_ALLOW, name));
  constexpr std::uint64_t k_kind = 0xf;  // of a socket, without SOCK_CLOEXEC and SOCK_NONBLOCK
  for (const std::uint64_t family : {std::uint64_t{AF_INET}, std::uint64_t{AF_INET6}})
    TRY(add(filter, SCMP_ACT_ALLOW, "socket", is(0, family),
            scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, k_kind, SOCK_STREAM}));
  TRY(add(filter, SCMP_ACT_KILL_PROCESS, "socket", is(0, AF_UNIX)));
  return load(filter);
}

Status filter_serve_calls() {
  TRY_ASSIGN(const Filter filter, make_filter());
  for (const char* name : k_on_open_files) TRY(add(filter, SCMP_ACT_ALLOW, name));
  for (const char* name : k_network) TRY(add(filter, SCMP_ACT_KILL_PROCESS, name));
  TRY(add(filter, SCMP_ACT_KILL_PROCESS, "socket"));
  return load(filter);
}

Status filter_build_calls() {
  const Filter filter(::seccomp_init(SCMP_ACT_ALLOW));
  if (!filter) return Error{ENOMEM, "seccomp_init failed"};
  TRY(set_attributes(filter));
  for (const char* name : k_forbidden) TRY(add(filter, SCMP_ACT_ERRNO(EPERM), name));
  constexpr std::uint64_t k_user_namespace = CLONE_NEWUSER;  // others need it
  TRY(add(filter, SCMP_ACT_ERRNO(EPERM), "clone",
          scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, k_user_namespace, k_user_namespace}));
  TRY(add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3"));  // see above
  TRY(add(filter, SCMP_ACT_ERRNO(EACCES), "socket", scmp_arg_cmp{0, SCMP_CMP_GT, AF_UNIX, 0}));
  return load(filter);
}

}  // namespace nodestage
