// The codec of Deflate64, method 9 of a zip, which Windows uses for files larger than 2 GiB.
//
// Deflate (RFC 1951) with a window of 64 KiB, length code 285 that means 3 and 16 more bits, and
// the distance codes 30 (32,769) and 31 (49,153) with 14 more bits each. There is no standard: the
// differences come from descriptions by authors of other readers, and from what 7-Zip writes. A
// frame is all data of a member. It has no checksum.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

std::unique_ptr<Codec> make_deflate64_codec();

}  // namespace nodestage
