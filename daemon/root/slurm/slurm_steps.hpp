// Which jobs have a step on this node, told by its slurmstepd processes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace nodestage {

// The job of a slurmstepd that has named itself "slurmstepd: [12.batch]".
std::optional<std::uint32_t> job_of_step(std::string_view command_line);

// Only what root has started counts. Blocks on no user's process: of those it reads the name alone.
std::set<std::uint32_t> jobs_with_steps();

}  // namespace nodestage
