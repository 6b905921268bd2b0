// Zstandard frames (RFC 8878) that are small and independent, as pzstd, zstd's seekable format, and
// `nodestage pack` write them, decoded by any thread.
#pragma once

#include <cstddef>

#include "common/result.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"

namespace nodestage {

// Translates libzstd's error codes for a Codec's caller.

// `code` is what a function of libzstd returned, and a ZSTD_isError(). The fault is like a Codec's.
Error zstd_fault(std::size_t code);

// Takes a frame that decodes into at most `most_blocks` of the store's blocks, is no larger than
// two thirds of the store's input, and has a window of at most 8 MiB, which each thread needs.
std::unique_ptr<WholeFrames> make_zstd_frames(std::size_t most_blocks);

}  // namespace nodestage
