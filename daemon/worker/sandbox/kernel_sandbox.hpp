// Finds out what this node's kernel offers to a process that confines itself.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// From this version of Landlock's interface on, entries can be renamed and linked between the
// directories below an allowed one, which staging needs.
inline constexpr int k_landlock_wanted = 2;

// Returns the version of Landlock (landlock_create_ruleset(2)); 0 if there is none or it is off;
// -errno if the kernel may have it and does not let this process use it.
int landlock_version();

// Returns whether the kernel has seccomp filters that kill a process, usable here or not.
bool has_seccomp_filters();

// Returns the fault, with the likely reason, for a failed system call of confinement.
Error confinement_error(const std::string& call, int code);

}  // namespace nodestage
