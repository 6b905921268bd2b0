// Gzip members that contain their size, as bgzip writes them (BGZF, SAM specification 4.1: an extra
// field "BC" with the member's size less 1; 64 KiB of data at most), decoded by any thread.
#pragma once

#include "daemon/worker/decode/frame_parts.hpp"

namespace nodestage {

std::unique_ptr<WholeFrames> make_whole_members();

}  // namespace nodestage
