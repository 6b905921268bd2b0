#include "daemon/worker/sandbox/landlock.hpp"

#include "daemon/worker/sandbox/landlock_ruleset.hpp"

namespace nodestage {
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
