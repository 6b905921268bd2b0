// Translates libzstd's error codes for a Codec's caller.
#pragma once

#include <cstddef>

#include "common/result.hpp"

namespace nodestage {

// `code` is what a function of libzstd returned, and a ZSTD_isError(). The fault is like a Codec's.
Error zstd_fault(std::size_t code);

}  // namespace nodestage
