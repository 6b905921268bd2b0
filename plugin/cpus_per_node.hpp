// SLURM_JOB_CPUS_PER_NODE: "4(x2),2" means 4, 4 and 2 CPUs on the job's three nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nodestage {

// Returns the CPUs of the node with index `node_index`; nullopt if the text is malformed before
// that node or names fewer nodes.
std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index);

}  // namespace nodestage
