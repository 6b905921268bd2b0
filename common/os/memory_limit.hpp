// How much memory a process may use.
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

// The smallest limit of the calling process's memory cgroup and of those around it; the node's
// memory if none is smaller. In bytes. `proc` is /proc, except in tests.
std::uint64_t memory_limit(const std::string& proc = "/proc");

// The limit of one cgroup and of those around it, up to the mount point; ~0: none.
std::uint64_t memory_limit_of(std::string directory);

}  // namespace nodestage
