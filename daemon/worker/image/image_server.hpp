// The task `serve`: answers the kernel's requests (FUSE) for the images that a job has mounted
// (common/wire/worker_order.hpp).
#pragma once

#include "common/wire/worker_order.hpp"

namespace nodestage {

// Serves until the file systems are unmounted, or it is killed. Returns the exit code.
int run_serve(const ServeOrder& order);

}  // namespace nodestage
