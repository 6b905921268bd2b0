// Whether a worker can confine itself on this node, tried by the program and on the road by which
// workers come: what the daemon's unit forbids to them is met here as it would be there.
#pragma once

namespace nodestage {

// Enters both sandboxes, that of a worker and that of a process which builds environments, and
// writes to the status file: phase `done`, all holds, or `cause` tells what the kernel lacks; phase
// `failed`, `cause` tells what could not be entered, and why. Returns the exit code.
int run_probe();

}  // namespace nodestage
