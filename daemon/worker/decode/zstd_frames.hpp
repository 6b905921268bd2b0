// Zstandard frames (RFC 8878) that are small and stand on their own, as pzstd, zstd's seekable
// format and `nodestage pack` write them, decoded by any thread.
#pragma once

#include "daemon/worker/decode/frame_parts.hpp"

namespace nodestage {

// A frame is one of them when it decodes into at most `most_blocks` of the store's blocks, is at
// most two thirds of the store's input in size, and has a window of at most 8 MiB, which each
// thread needs.
std::unique_ptr<WholeFrames> make_zstd_frames(std::size_t most_blocks);

}  // namespace nodestage
