// The codec of gzip members (RFC 1952): an Inflater decodes; headers are parsed here.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/inflater.hpp"

namespace nodestage {

// The header's CRC16, if present, and the trailer's CRC32 and length are verified.
std::unique_ptr<Codec> make_gzip_codec();

// The Codec's fault for a State that is one.
Error inflate_fault(Inflater::State state);

}  // namespace nodestage
