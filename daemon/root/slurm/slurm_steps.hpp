// Which jobs have a step on this node, found by their slurmstepd processes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace nodestage {

// The job of a slurmstepd whose command line is "slurmstepd: [12.batch]".
std::optional<std::uint32_t> job_of_step(std::string_view command_line);

// Only processes that root started count. Never blocks on a user's process: it reads only its name.
std::set<std::uint32_t> jobs_with_steps();

}  // namespace nodestage
