// Bytes that are only read.
#pragma once

#include <cstddef>
#include <span>

namespace nodestage {

using Bytes = std::span<const std::byte>;

}  // namespace nodestage
