// Makes MUNGE's credential for a note to another node. A build without MUNGE (NODESTAGE_MUNGE)
// makes none; k_with_munge (common/build_info.hpp) says which one this is.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/result.hpp"

namespace nodestage {

// Makes a credential that only `uid` can decode and that shows the caller's uid. Waits for munged.
// Faults are for an administrator.
Result<std::string> make_credential(const std::string& payload, uid_t uid);

// Makes one for the caller's own uid, and decodes it.
Status try_munge();

}  // namespace nodestage
