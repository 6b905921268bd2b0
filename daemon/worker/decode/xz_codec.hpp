// The codec of xz streams, with liblzma's threads if a stream has several blocks of known size.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// Uses as many threads as limits.memory allows: each takes a block's compressed and decoded size
// and the dictionary. If that is too much, or a block's size is not known, one thread decodes.
std::unique_ptr<Codec> make_xz_codec(CodecLimits limits);

}  // namespace nodestage
