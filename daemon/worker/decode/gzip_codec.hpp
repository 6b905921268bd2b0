// The codec of gzip members (RFC 1952): ISA-L inflates; headers are read here.
#pragma once

#include <memory>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// The header's CRC16, where there is one, and the trailer's CRC32 and length are verified.
std::unique_ptr<Codec> make_gzip_codec();

// A failed call of isal_inflate() as a Codec's fault.
Error inflate_fault(int status);

}  // namespace nodestage
