// Entries of a tar archive of any kind, straight from a decoder's blocks.
//
// v7, ustar, GNU (long names, both ways of sparse files) and pax (with global headers); numbers in
// base 256; checksums of signed bytes. Formats: tar_header.hpp, pax_header.hpp. A header that is
// wrong, a missing end marker, and what would be read otherwise than it was meant (a part of
// several volumes, Solaris' sparse files) are faults. What follows the end marker is passed over.
#pragma once

#include <memory>

#include "common/request/request.hpp"
#include "daemon/worker/archive/entries.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `decoder` (borrowed) gives the archive from its start.
std::unique_ptr<Entries> open_tar_entries(Decoder& decoder, TarEnd end = TarEnd::required);

}  // namespace nodestage
