// Which way a source is decoded, and what memory each part of the way gets.
#pragma once

#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `first` are the source's blocks up to its position(). The source is borrowed. The fault: no
// thread.
Result<std::unique_ptr<Decoding>> start_decoding(const Source& source, std::vector<Slice> first,
                                                 Coding coding, const DecoderLimits& limits);

}  // namespace nodestage
