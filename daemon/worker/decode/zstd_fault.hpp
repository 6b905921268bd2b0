// What libzstd's error codes are to a Codec's caller.
#pragma once

#include <cstddef>

#include "common/result.hpp"

namespace nodestage {

// `code` is what a function of libzstd returned, and ZSTD_isError(). The fault is as Codec's are.
Error zstd_fault(std::size_t code);

}  // namespace nodestage
