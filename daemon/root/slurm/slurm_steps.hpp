// Finds the jobs that have a step on this node, by their slurmstepd processes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace nodestage {

// Returns the job of a slurmstepd with a command line such as "slurmstepd: [12.batch]".
std::optional<std::uint32_t> job_of_step(std::string_view command_line);

// Counts only processes of root. Never blocks on a user's process: it reads only its name.
std::set<std::uint32_t> jobs_with_steps();

}  // namespace nodestage
