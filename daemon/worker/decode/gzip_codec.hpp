// The codec of gzip members (RFC 1952): ISA-L inflates; headers are parsed here.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// The header's CRC16, if present, and the trailer's CRC32 and length are verified.
std::unique_ptr<Codec> make_gzip_codec();

// The Codec's fault for a failed call of isal_inflate().
Error inflate_fault(int status);

}  // namespace nodestage
