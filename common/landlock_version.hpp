// Which version of Landlock this node's kernel offers (landlock_create_ruleset(2)).
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace nodestage {

// From this version of the interface on, what lies below a directory may be renamed and linked
// between its directories, which staging does.
inline constexpr int k_landlock_wanted = 2;

// 0: the kernel has none, or it is switched off.
inline int landlock_version() {
  constexpr std::uint32_t k_ask_version = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0}, k_ask_version);
  return version < 0 ? 0 : static_cast<int>(version);
}

}  // namespace nodestage
