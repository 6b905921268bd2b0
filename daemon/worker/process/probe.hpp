// Tests whether a worker can confine itself on this node, with the program and the start that
// workers have, so that what the daemon's unit forbids is found as a worker would find it.
#pragma once

namespace nodestage {

// Enters both sandboxes, a worker's and that of a process that builds environments, and writes the
// result to the status file. Phase `done`: `cause` is empty or names what the kernel lacks. Phase
// `failed`: `cause` says what could not be entered, and why. Returns the exit code.
int run_probe();

}  // namespace nodestage
