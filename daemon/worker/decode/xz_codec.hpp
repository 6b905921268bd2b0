// The codec of xz streams, by liblzma's threads where a stream has several blocks of known size.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// Threads are used as far as limits.memory goes: each takes a block's compressed and decoded size
// and the dictionary; where that is too much, or a block's size is not known, one thread decodes.
std::unique_ptr<Codec> make_xz_codec(CodecLimits limits);

}  // namespace nodestage
