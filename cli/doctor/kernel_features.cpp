#include "cli/doctor/kernel_features.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace nodestage {
namespace {

bool is_file_system(const char* path, std::uint64_t magic) {
  struct statfs type {};
  return ::statfs(path, &type) == 0 && static_cast<std::uint64_t>(type.f_type) == magic;
}

}  // namespace

int landlock_abi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

std::string landlock_text(int abi) { return abi == 0 ? "no" : "ABI " + std::to_string(abi); }

bool has_seccomp() {
  const std::uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool has_openat2() {
  open_how how{};
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
  if (fd >= 0) ::close(static_cast<int>(fd));
  return fd >= 0 || errno != ENOSYS;
}

std::string cgroup_text() {
  if (is_file_system("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) return "v2";
  if (is_file_system("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC)) return "v1 with v2 beside it";
  return is_file_system("/sys/fs/cgroup", TMPFS_MAGIC) ||
                 is_file_system("/sys/fs/cgroup/memory", CGROUP_SUPER_MAGIC)
             ? "v1"
             : "none";
}

}  // namespace nodestage
