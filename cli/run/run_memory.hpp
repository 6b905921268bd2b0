// The directory in memory of `nodestage run`, for items with in=memory.
#pragma once

#include <optional>

#include "cli/base/private_directory.hpp"
#include "common/request/request.hpp"

namespace nodestage {

// Where it is made.
inline constexpr const char* k_memory_parent = "/dev/shm";

// Makes one, if the request has such an item. Its descriptor holds a lock, by which
// clear_dead_memory() knows that a run, or the guard of its command, lives.
Result<std::optional<PrivateDirectory>> make_run_memory(const StageRequest& request,
                                                        const char* parent = k_memory_parent);

// Removes those of the caller's runs that were killed.
void clear_dead_memory(const char* parent = k_memory_parent);

}  // namespace nodestage
