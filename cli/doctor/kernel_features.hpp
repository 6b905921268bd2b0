// Finds out what this host's kernel offers of what nodestage uses.
#pragma once

#include <string>

namespace nodestage {

int landlock_abi();  // 0: not available
std::string landlock_text(int abi);
bool has_seccomp();
bool has_openat2();
std::string cgroup_text();  // "v2", "v1", "v1 with v2 beside it", "none"

}  // namespace nodestage
