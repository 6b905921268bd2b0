// What this process can tell of the host and, inside of one, the Slurm job that it runs in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nodestage {

// Slurm's name of it, else the host's without its domain.
std::string node_name();

// A variable that holds a number and nothing else.
std::optional<std::uint32_t> number_in(const char* variable);

// CPUs that this process may use; 1 at least.
unsigned usable_cpus();

// The name of the user whose process this is; the uid when it has none.
std::string user_name();

}  // namespace nodestage
