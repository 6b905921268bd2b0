// SLURM_JOB_CPUS_PER_NODE: "4(x2),2" means 4, 4 and 2 CPUs on the job's three nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nodestage {

// CPUs of the node with that index; nothing when the text is not of this form up to there, or names
// fewer nodes.
std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index);

}  // namespace nodestage
