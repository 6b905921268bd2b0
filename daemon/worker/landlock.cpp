#include "daemon/worker/landlock.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "common/landlock_version.hpp"

namespace nodestage {
namespace {

// The interface, as far as it is used; a build machine's kernel headers may be older than the
// node's kernel.
constexpr int k_path_beneath = 1;  // LANDLOCK_RULE_PATH_BENEATH

struct RulesetAttributes {
  std::uint64_t files = 0;
  std::uint64_t network = 0;  // from version 4 on
  std::uint64_t scoped = 0;   // from version 6 on
};

struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed = 0;
  std::int32_t directory = -1;
};

enum Right : std::uint64_t {
  execute = 1 << 0,
  write_file = 1 << 1,
  remove_directory = 1 << 4,
  remove_file = 1 << 5,
  make_character_device = 1 << 6,
  make_directory = 1 << 7,
  make_file = 1 << 8,
  make_socket = 1 << 9,
  make_fifo = 1 << 10,
  make_block_device = 1 << 11,
  make_symlink = 1 << 12,
  refer = 1 << 13,           // from version 2 on
  truncate = 1 << 14,        // from version 3 on
  control_device = 1 << 15,  // from version 5 on
};

constexpr std::uint64_t k_granted = write_file | remove_directory | remove_file | make_directory |
                                    make_file | make_symlink | refer | truncate;
constexpr std::uint64_t k_denied =
    execute | make_character_device | make_socket | make_fifo | make_block_device | control_device;
constexpr std::uint64_t k_bind_and_connect_tcp = 3;
constexpr std::uint64_t k_abstract_sockets_and_signals = 3;

std::uint64_t known_rights(int version) {
  std::uint64_t rights = k_granted | k_denied;
  if (version < 3) rights &= ~std::uint64_t{truncate};
  if (version < 5) rights &= ~std::uint64_t{control_device};
  return rights;
}

// An older kernel knows the first fields only.
Result<Fd> make_ruleset(int version) {
  RulesetAttributes attributes{known_rights(version), 0, 0};
  std::size_t size = sizeof attributes.files;
  if (version >= 4) {
    attributes.network = k_bind_and_connect_tcp;
    size += sizeof attributes.network;
  }
  if (version >= 6) {
    attributes.scoped = k_abstract_sockets_and_signals;
    size += sizeof attributes.scoped;
  }
  Fd ruleset(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, size, std::uint32_t{0})));
  if (!ruleset) return system_error("landlock_create_ruleset");
  return ruleset;
}

}  // namespace

Status confine_writes(std::span<const Fd> directories) {
  const int version = landlock_version();
  if (version < k_landlock_wanted) {
    return Error{ENOSYS, version == 0 ? "this kernel has no Landlock, or it is switched off"
                                      : "this kernel's Landlock is too old"};
  }
  TRY_ASSIGN(const Fd ruleset, make_ruleset(version));
  for (const Fd& directory : directories) {
    const PathBeneath rule{k_granted & known_rights(version), directory.get()};
    if (::syscall(SYS_landlock_add_rule, ruleset.get(), k_path_beneath, &rule, 0) != 0)
      return system_error("landlock_add_rule");
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return system_error("landlock_restrict_self");
  return {};
}

}  // namespace nodestage
