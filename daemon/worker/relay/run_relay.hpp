// Runs the worker's task `relay`: gets sources from other nodes, and passes them on.
#pragma once

#include "common/wire/worker_order.hpp"

namespace nodestage {

// Uses the descriptors of worker_order.hpp. Writes the status file: phase `working` once it listens
// (or cannot), then `done`, or `failed` with the cause. Returns the exit code.
int run_relay(const RelayOrder& order);

}  // namespace nodestage
