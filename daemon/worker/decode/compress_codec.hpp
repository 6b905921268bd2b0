// The codec of compress(1), ".Z": LZW with codes of 9 to 16 bits.
//
// clang-format off
//   file   1f 9d | u8: bits 0-4 the widest code, bit 7: code 256 resets the table | codes
//   codes  from the lowest bit on, in groups of eight with the same width; the rest of a group is
//          unused when the width changes or the table is reset
// clang-format on
//
// There is no standard. This follows descriptions of the format and what compress(1) and others
// write. It has neither an end marker nor a checksum: the file's end is the end.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

std::unique_ptr<Codec> make_compress_codec();

}  // namespace nodestage
