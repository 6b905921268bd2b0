// The task `serve`: answers the kernel's requests (FUSE) for the images that a job has mounted
// (common/wire/worker_order.hpp).
//
// Each image is served by a process of its own: one whose server does not survive it says
// "Transport endpoint is not connected", and the job's others do not notice. Such a process waits
// until its image is there, opens it, and then confines itself: it can neither open nor start
// anything, and uses what is open. Only then does it look at the image.
#pragma once

#include <functional>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Serves until all file systems are unmounted, or it is killed; then its processes are, too. The
// status file says `working`, then `done`, or `failed` with the cause of an image that cannot be
// read as one. `confine` enters Profile::serve of the sandbox (daemon/worker/sandbox/sandbox.hpp),
// in each process. Returns the exit code, 1 if one of the images was not served to the end.
int run_serve(const ServeOrder& order, const std::function<Status()>& confine);

}  // namespace nodestage
