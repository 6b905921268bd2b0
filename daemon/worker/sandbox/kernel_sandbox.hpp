// What this node's kernel offers to a process that confines itself.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// From this version of Landlock's interface on, entries can be renamed and linked between the
// directories below an allowed one, which staging needs.
inline constexpr int k_landlock_wanted = 2;

// The version of Landlock (landlock_create_ruleset(2)). 0: the kernel has none, or it is switched
// off. Below 0: -errno; the kernel has it, or may have it, and does not let this process use it.
int landlock_version();

// Whether the kernel has seccomp filters that kill a process, usable by this process or not.
bool has_seccomp_filters();

// The fault for a system call of confinement that failed with `code`, with the likely reason.
Error confinement_error(const std::string& call, int code);

}  // namespace nodestage
