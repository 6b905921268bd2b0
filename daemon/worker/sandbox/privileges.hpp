// Proves that this process has no right that the job's user lacks.
#pragma once

#include <string_view>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Fails unless all of this holds: every uid and gid (real, effective, saved, of the file system) is
// the order's and not 0; the inheritable, permitted, effective, and ambient capability sets are
// empty; no_new_privs is set. Supplementary groups and the bounding set may be anything.
Status verify_privileges(const OrderHead& order);

// Does the same for a text of /proc/self/status.
Status verify_process_status(std::string_view status, const OrderHead& order);

}  // namespace nodestage
