// Chooses how a source is decoded, and how much memory each stage gets.
#pragma once

#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `first`: the source's blocks up to its position(). The source is borrowed. A fault: no thread
// could be started.
Result<std::unique_ptr<Decoding>> start_decoding(const Source& source, std::vector<Slice> first,
                                                 Coding coding, const DecoderLimits& limits);

}  // namespace nodestage
