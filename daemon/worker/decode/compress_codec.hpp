// The codec of compress(1), ".Z": LZW with codes of 9 to 16 bits.
//
// clang-format off
//   file   1f 9d | u8: bits 0-4 the widest code, bit 7: code 256 forgets the table | codes
//   codes  from the lowest bit on, in groups of eight of one width; what of a group is left when
//          the width changes, or the table is forgotten, is not used
// clang-format on
//
// From the descriptions of the format and what compress(1) and others write; there is no standard.
// It has neither an end nor a checksum: the file's end is the end.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

std::unique_ptr<Codec> make_compress_codec();

}  // namespace nodestage
