// The codec of lzip(1), ".lz": members of LZMA data with a checksum.
//
//   header   "LZIP" | u8 version, 1 | u8 dictionary: bits 0-4 the power of two, bits 5-7 the
//            sixteenths of it to subtract
//   data     LZMA with lc=3 lp=0 pb=2 and an end marker
//   trailer  u32 CRC-32 of the data | u64 size of the data | u64 size of the member
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

std::unique_ptr<Codec> make_lzip_codec();

}  // namespace nodestage
