#include "daemon/worker/sandbox/sandbox.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/sandbox/call_filter.hpp"

namespace nodestage {
namespace {

// LandlockRuleset: lets this process and all threads that it starts write only below a few
// directories, by the part of the kernel's Landlock interface that is used here. A build machine's
// kernel headers may be older than the node's kernel. Interface:
// Documentation/userspace-api/landlock.rst of the kernel.

// Rights on files, as the kernel numbers them.
enum LandlockRight : std::uint64_t {
  k_landlock_execute = 1 << 0,
  k_landlock_write_file = 1 << 1,
  k_landlock_read_file = 1 << 2,
  k_landlock_read_directory = 1 << 3,
  k_landlock_remove_directory = 1 << 4,
  k_landlock_remove_file = 1 << 5,
  k_landlock_make_character_device = 1 << 6,
  k_landlock_make_directory = 1 << 7,
  k_landlock_make_file = 1 << 8,
  k_landlock_make_socket = 1 << 9,
  k_landlock_make_fifo = 1 << 10,
  k_landlock_make_block_device = 1 << 11,
  k_landlock_make_symlink = 1 << 12,
  k_landlock_refer = 1 << 13,           // from version 2 on
  k_landlock_truncate = 1 << 14,        // from version 3 on
  k_landlock_control_device = 1 << 15,  // from version 5 on
};

// Every right that changes something.
constexpr std::uint64_t k_landlock_all_writes = 0xfff2;

enum class TcpPorts { none, all };

constexpr int k_path_beneath = 1;  // LANDLOCK_RULE_PATH_BENEATH
constexpr std::uint64_t k_bind_and_connect_tcp = 3;
constexpr std::uint64_t k_abstract_sockets_and_signals = 3;

struct RulesetAttributes {
  std::uint64_t files = 0;
  std::uint64_t network = 0;  // from version 4 on
  std::uint64_t scoped = 0;   // from version 6 on
};

struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed = 0;
  std::int32_t path_fd = -1;
};

std::uint64_t known(std::uint64_t rights, int version) {
  if (version < 3) rights &= ~std::uint64_t{k_landlock_truncate};
  if (version < 5) rights &= ~std::uint64_t{k_landlock_control_device};
  return rights;
}

// An older kernel knows only the first fields.
std::size_t size_for(int version) {
  if (version >= 6) return sizeof(RulesetAttributes);
  return version >= 4 ? offsetof(RulesetAttributes, scoped) : offsetof(RulesetAttributes, network);
}

class LandlockRuleset {
 public:
  // Prepares to take away `rights`, as far as the kernel knows them, TCP ports (from version 4 on)
  // unless all may be used, and signals to processes and abstract sockets outside (from version 6
  // on). Fails with ENOSYS if there is no Landlock, or a version before 2.
  static Result<LandlockRuleset> make(std::uint64_t rights, TcpPorts ports = TcpPorts::none) {
    const int version = landlock_version();
    if (version < 0) return confinement_error("landlock_create_ruleset", -version);
    if (version < k_landlock_wanted) {
      return Error{ENOSYS, version == 0 ? "this kernel has no Landlock, or it is switched off"
                                        : "this kernel's Landlock is too old"};
    }
    const RulesetAttributes attributes{known(rights, version),
                                       ports == TcpPorts::none ? k_bind_and_connect_tcp : 0,
                                       k_abstract_sockets_and_signals};
    Fd fd(static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, size_for(version), std::uint32_t{0})));
    if (!fd) return confinement_error("landlock_create_ruleset", errno);
    return LandlockRuleset(std::move(fd), attributes.files);
  }

  // Leaves `rights` on `path_fd` (O_PATH is enough) and everything below it.
  [[nodiscard]] Status allow(int path_fd, std::uint64_t rights) const {
    const PathBeneath rule{rights & rights_, path_fd};
    if (::syscall(SYS_landlock_add_rule, fd_.get(), k_path_beneath, &rule, 0) == 0) return {};
    return confinement_error("landlock_add_rule", errno);
  }

  // Applies to this process, its future threads, and everything that it starts. Cannot be undone.
  // Needs no_new_privs.
  [[nodiscard]] Status enter() const {
    if (::syscall(SYS_landlock_restrict_self, fd_.get(), 0) == 0) return {};
    return confinement_error("landlock_restrict_self", errno);
  }

 private:
  LandlockRuleset(Fd fd, std::uint64_t rights) : fd_(std::move(fd)), rights_(rights) {}
  Fd fd_;
  std::uint64_t rights_;
};

constexpr std::uint64_t k_granted = k_landlock_write_file | k_landlock_remove_directory |
                                    k_landlock_remove_file | k_landlock_make_directory |
                                    k_landlock_make_file | k_landlock_make_symlink |
                                    k_landlock_refer | k_landlock_truncate;

// Forbids, as far as the kernel's version supports it: writing, creating, renaming, linking, and
// removing except below `directories` (O_PATH is enough); creating devices and FIFOs; controlling
// devices and running programs; TCP ports, except to a relay; opening files for reading, to what
// serves an image; signals to processes outside. Open files stay as they were. This cannot be
// undone, only narrowed. Needs no_new_privs and a process without other threads. A fault leaves
// everything as it was. With Special::keep, FIFOs can also be created below `directories`.
Status confine_files(Profile profile, Special special, std::span<const Fd> directories) {
  std::uint64_t rights = k_landlock_all_writes | k_landlock_execute;
  if (profile == Profile::serve) rights |= k_landlock_read_file | k_landlock_read_directory;
  const TcpPorts ports = profile == Profile::relay ? TcpPorts::all : TcpPorts::none;
  TRY_ASSIGN(const LandlockRuleset rules, LandlockRuleset::make(rights, ports));
  std::uint64_t granted = k_granted;
  if (special == Special::keep) granted |= k_landlock_make_fifo;
  if (profile == Profile::decode) {  // the others only use what is open
    for (const Fd& directory : directories) TRY(rules.allow(directory.get(), granted));
  }
  return rules.enter();
}

// Returns the numbers after "KEY:"; none if the line is missing.
std::vector<std::uint64_t> numbers(std::string_view status, const std::string& key, int base) {
  const std::size_t line = status.find("\n" + key + ":");
  if (line == std::string_view::npos) return {};
  std::string_view rest = status.substr(line + key.size() + 2);
  rest = rest.substr(0, rest.find('\n'));
  std::vector<std::uint64_t> values;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    std::uint64_t value = 0;
    const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
    if (end.ec != std::errc()) return values;
    values.push_back(value);
    rest.remove_prefix(static_cast<std::size_t>(end.ptr - rest.data()));
  }
}

Status verify_ids(std::string_view status, const std::string& key, std::uint32_t wanted) {
  if (wanted == 0) return Error{EPERM, "the order's " + key + " is 0"};
  if (numbers(status, key, 10) == std::vector<std::uint64_t>(4, wanted)) return {};
  return Error{EPERM, "a " + key + " of this process is not " + std::to_string(wanted)};
}

}  // namespace

Status verify_process_status(std::string_view status, const OrderHead& order) {
  TRY(verify_ids(status, "Uid", order.uid));
  TRY(verify_ids(status, "Gid", order.gid));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    if (numbers(status, set, 16) != std::vector<std::uint64_t>{0}) {
      return Error{EPERM, std::string("the capability set ") + set + " is not empty"};
    }
  }
  if (numbers(status, "NoNewPrivs", 10) != std::vector<std::uint64_t>{1}) {
    return Error{EPERM, "no_new_privs is not set"};
  }
  return {};
}

Status verify_privileges(const OrderHead& order) {
  TRY_ASSIGN(const std::string status, read_file(AT_FDCWD, "/proc/self/status", 64 * 1024));
  return verify_process_status(status, order);
}

namespace {

// Each writer keeps 64 directories open, and a job may have hundreds of CPUs.
constexpr rlim_t k_open_files = 64 * 1024;

// Not limited here: memory (RLIMIT_AS also counts what is only reserved, such as each thread's
// stack and heap; the worker's cgroup has worker.memory), processes (RLIMIT_NPROC counts all of the
// user's; the cgroup has worker.pids, and fork() is deadly), the size of a file (the disk is
// admitted as a whole, space.hpp), CPU time (the daemon limits the duration of a task).
void limit_resources() {
  const rlimit no_dump{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_CORE, &no_dump));
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max = std::min(files.rlim_max, k_open_files);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

void add(std::string& list, const std::string& text) {
  if (!list.empty()) list += "; ";
  list += text;
}

void note_writes(Sandbox& sandbox, const Status& confined) {
  sandbox.writes_confined = static_cast<bool>(confined);
  if (confined) return;
  const int version = landlock_version();
  const bool is_offered = version < 0 || version >= k_landlock_wanted;
  add(is_offered ? sandbox.fault : sandbox.lacking,
      "where it writes is not confined: " + confined.error().text());
}

void note_calls(Sandbox& sandbox, const Status& filtered) {
  sandbox.calls_filtered = static_cast<bool>(filtered);
  if (filtered) return;
  add(has_seccomp_filters() ? sandbox.fault : sandbox.lacking,
      "its system calls are not filtered: " + filtered.error().text());
}

void filter(Sandbox& sandbox, Profile profile, Special special) {
  switch (profile) {
    case Profile::decode:
      return note_calls(sandbox, filter_calls(special));
    case Profile::relay:
      return note_calls(sandbox, filter_relay_calls());
    case Profile::serve:
      return note_calls(sandbox, filter_serve_calls());
  }
}

}  // namespace

Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places) {
  static_cast<void>(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));  // already set, except in tests
  Sandbox sandbox;
  limit_resources();
  note_writes(sandbox, confine_files(profile, special, places));
  filter(sandbox, profile, special);
  return sandbox;
}

Sandbox enter_sandbox(Profile profile, Special special) {
  Sandbox sandbox;
  limit_resources();
  filter(sandbox, profile, special);
  return sandbox;
}

namespace {

Status restrict_writes(int job_fd) {
  TRY_ASSIGN(const LandlockRuleset rules, LandlockRuleset::make(k_landlock_all_writes));
  TRY(rules.allow(job_fd, k_landlock_all_writes));
  for (const char* path : {"/dev/null", "/dev/zero"}) {
    const Fd device(::open(path, O_PATH | O_CLOEXEC));
    if (!device) continue;
    TRY(rules.allow(device.get(),
                    k_landlock_write_file | k_landlock_truncate | k_landlock_control_device));
  }
  return rules.enter();
}

}  // namespace

Sandbox enter_build_sandbox(int job_fd) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Sandbox sandbox;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
    sandbox.lacking = "no_new_privs is not set";
    return sandbox;
  }
  note_writes(sandbox, restrict_writes(job_fd));
  note_calls(sandbox, filter_build_calls());
  return sandbox;
}

}  // namespace nodestage
