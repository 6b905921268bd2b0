// What nodestage-workers.service runs: it keeps the workers' cgroup for nodestaged.
//
// systemd removes the cgroup of a service in which no process is, and does not start a service
// whose cgroup has children with processes. So the workers' cgroup is that of a service of its own,
// with this one process in it, and the daemon comes and goes beside it.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// Makes the own cgroup one for workers (Cgroups::hand_on), writes to `file` which it is, tells
// systemd, and waits for SIGTERM; then removes `file`. Needs root, or a delegated cgroup, and no
// capability.
Status keep_cgroup(const std::string& file);

}  // namespace nodestage
