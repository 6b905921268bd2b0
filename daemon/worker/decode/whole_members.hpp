// Gzip members that contain their size, as bgzip writes them (BGZF, SAM specification 4.1: an extra
// field "BC" with the member's size less 1; 64 KiB of data at most), decoded by any thread.
#pragma once

#include "daemon/worker/decode/frame_parts.hpp"

namespace nodestage {

// A member fits into a block, so it does not matter how many there are.
std::unique_ptr<WholeFrames> make_whole_members(std::size_t most_blocks);

}  // namespace nodestage
