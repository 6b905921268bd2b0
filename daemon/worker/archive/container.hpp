// Which archive format a file has, by its content.
#pragma once

#include "common/text/formats.hpp"
#include "daemon/worker/basis/bytes.hpp"

namespace nodestage {

// Takes the first bytes of a decoded stream: 33 KiB are enough, and fewer mean that the stream ends
// there. A block of zeros is `none`: it may be an empty tar or any other file.
Container recognise_container(Bytes start);

// Whether the stream starts with 512 bytes of zeros: an empty tar, if the name says so.
bool starts_with_zero_block(Bytes start);

}  // namespace nodestage
