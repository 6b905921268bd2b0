// Sizes that many tests count in.
#pragma once

#include <cstdint>

namespace nodestage {

inline constexpr std::uint64_t k_mib = 1ULL << 20;
inline constexpr std::uint64_t k_gib = 1ULL << 30;

}  // namespace nodestage
