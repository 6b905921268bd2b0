#include "daemon/worker/build_sandbox.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "common/fd.hpp"
#include "common/landlock_version.hpp"
#include "daemon/worker/call_filter.hpp"

namespace nodestage {
namespace {

// <linux/landlock.h> may be older than the kernel.
constexpr std::uint64_t k_execute = 1ULL << 0;
constexpr std::uint64_t k_read_file = 1ULL << 2;
constexpr std::uint64_t k_read_dir = 1ULL << 3;
constexpr std::uint64_t k_write_file = 1ULL << 1;
constexpr std::uint64_t k_all_of_abi_2 = (1ULL << 14) - 1;
constexpr std::uint64_t k_truncate = 1ULL << 14;
constexpr std::uint64_t k_ioctl_device = 1ULL << 15;
constexpr std::uint64_t k_tcp = 3;
constexpr std::uint64_t k_sockets_and_signals = 3;

struct Ruleset {
  std::uint64_t files;
  std::uint64_t network;
  std::uint64_t scopes;
};

struct PathRule {
  std::uint64_t allowed;
  std::int32_t parent_fd;
} __attribute__((packed));

std::size_t size_for(int abi) {
  if (abi >= 6) return sizeof(Ruleset);
  return abi >= 4 ? offsetof(Ruleset, scopes) : offsetof(Ruleset, network);
}

Status allow(int ruleset, int fd, std::uint64_t rights) {
  const PathRule rule{rights, fd};
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
    return {};
  return system_error("landlock_add_rule");
}

Status restrict_writes(int job_fd, int abi) {
  Ruleset rules{k_all_of_abi_2 & ~(k_execute | k_read_file | k_read_dir), k_tcp,
                k_sockets_and_signals};
  if (abi >= 3) rules.files |= k_truncate;
  if (abi >= 5) rules.files |= k_ioctl_device;
  const Fd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, size_for(abi), 0)));
  if (!ruleset) return system_error("landlock_create_ruleset");
  TRY(allow(ruleset.get(), job_fd, rules.files));
  for (const char* path : {"/dev/null", "/dev/zero"}) {
    const Fd device(::open(path, O_PATH | O_CLOEXEC));
    if (!device) continue;
    TRY(allow(ruleset.get(), device.get(),
              rules.files & (k_write_file | k_truncate | k_ioctl_device)));
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) == 0) return {};
  return system_error("landlock_restrict_self");
}

}  // namespace

Status enter_build_sandbox(int job_fd) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return {};
  if (const int abi = landlock_version(); abi >= k_landlock_wanted)
    TRY(restrict_writes(job_fd, abi));
  return filter_build_calls();
}

}  // namespace nodestage
