// How large a request may be, for who only passes it on.
#pragma once

#include <cstddef>

namespace nodestage {

// The environment carries at most this much: an oversized variable makes Slurm's exec of the
// prolog fail, which drains the node.
inline constexpr std::size_t k_max_request_bytes = 16 * 1024;
inline constexpr std::size_t k_max_request_items = 64;  // datasets and venv together; outputs

}  // namespace nodestage
