// What lies between two places of a gzip index, decoded by the Inflater.
#pragma once

#include <vector>

#include "daemon/worker/decode/gzip_index.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"

namespace nodestage {

// Fills the memory of `blocks`, which holds the stretch, and sets their sizes. `data` begin with
// the byte in which the stretch begins. False: this is not all of what lies between two blocks
// there.
bool inflate_stretch(const GzipStretch& stretch, Bytes data, std::vector<Part::Block>& blocks);

}  // namespace nodestage
