#include "daemon/worker/sandbox/landlock.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/worker/sandbox/call_filter.hpp"

namespace nodestage {
namespace {

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

}  // namespace

Result<LandlockRuleset> LandlockRuleset::make(std::uint64_t rights, TcpPorts ports) {
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

Status LandlockRuleset::allow(int path_fd, std::uint64_t rights) const {
  const PathBeneath rule{rights & rights_, path_fd};
  if (::syscall(SYS_landlock_add_rule, fd_.get(), k_path_beneath, &rule, 0) == 0) return {};
  return confinement_error("landlock_add_rule", errno);
}

Status LandlockRuleset::enter() const {
  if (::syscall(SYS_landlock_restrict_self, fd_.get(), 0) == 0) return {};
  return confinement_error("landlock_restrict_self", errno);
}

namespace {

constexpr std::uint64_t k_granted = k_landlock_write_file | k_landlock_remove_directory |
                                    k_landlock_remove_file | k_landlock_make_directory |
                                    k_landlock_make_file | k_landlock_make_symlink |
                                    k_landlock_refer | k_landlock_truncate;

}  // namespace

Status confine_writes(std::span<const Fd> directories, Special special) {
  TRY_ASSIGN(const LandlockRuleset rules,
             LandlockRuleset::make(k_landlock_all_writes | k_landlock_execute));
  std::uint64_t granted = k_granted;
  if (special == Special::keep) granted |= k_landlock_make_fifo;
  for (const Fd& directory : directories) TRY(rules.allow(directory.get(), granted));
  return rules.enter();
}

Status confine_to_network() {
  TRY_ASSIGN(const LandlockRuleset rules,
             LandlockRuleset::make(k_landlock_all_writes | k_landlock_execute, TcpPorts::all));
  return rules.enter();
}

}  // namespace nodestage
