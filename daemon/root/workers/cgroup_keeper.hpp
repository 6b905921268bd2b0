// The process of nodestage-workers.service: keeps the workers' cgroup for nodestaged.
//
// systemd removes the cgroup of a service without processes, and does not start a service whose
// cgroup has children with processes. So the workers' cgroup belongs to a service of its own with
// this one process, and the daemon can be stopped and started beside it.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// Prepares this process's own cgroup for workers (Cgroups::hand_on), writes its identity to `file`,
// notifies systemd, and waits for SIGTERM. Then removes `file`. Needs root or a delegated cgroup,
// and no capability.
Status keep_cgroup(const std::string& file);

}  // namespace nodestage
