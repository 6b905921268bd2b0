// What this node's kernel offers to a process that confines itself.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// From this version of Landlock's interface on, what lies below a directory may be renamed and
// linked between its directories, which staging does.
inline constexpr int k_landlock_wanted = 2;

// The version of Landlock (landlock_create_ruleset(2)). 0: the kernel has none, or it is switched
// off. Below 0: -errno; the kernel has it, or may have it, and this process is not let to it.
int landlock_version();

// Whether the kernel has seccomp filters that end a process, whoever may use them.
bool has_seccomp_filters();

// A system call by which a process confines itself has failed with `code`: with the likely reason.
Error confinement_error(const std::string& call, int code);

}  // namespace nodestage
