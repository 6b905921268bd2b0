#include "daemon/worker/sandbox/kernel_sandbox.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

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

}  // namespace nodestage
