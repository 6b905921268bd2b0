// Finds facts about this process: its host, its user, and the Slurm job it runs in, if any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nodestage {

// Slurm's name of this node, else the host name without the domain.
std::string node_name();

// Returns the value of a variable that holds a number and nothing else.
std::optional<std::uint32_t> number_in(const char* variable);

// The number of CPUs that this process may use; at least 1.
unsigned usable_cpus();

// The name of this process's user, or the uid if it has no name.
std::string user_name();

}  // namespace nodestage
