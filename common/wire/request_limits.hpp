// The limits of a request, for code that only passes it on.
#pragma once

#include <cstddef>

namespace nodestage {

// The request travels in an environment variable: an oversized one makes Slurm's exec of the prolog
// fail, which drains the node.
inline constexpr std::size_t k_max_request_bytes = 16 * 1024;
inline constexpr std::size_t k_max_request_items = 64;  // datasets and venv together; and outputs

}  // namespace nodestage
