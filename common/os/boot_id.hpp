// The name of this host's boot.
#pragma once

#include <string>

namespace nodestage {

// Returns the kernel's random identifier: no two hosts have the same, and a reboot changes it. ""
// if it cannot be read.
std::string boot_id();

}  // namespace nodestage
