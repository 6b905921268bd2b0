// Entries of a tar archive of any kind, straight from a decoder's blocks.
//
// Reads v7, ustar, GNU (long names, both forms of sparse files), and pax (with global headers);
// numbers in base 256; checksums of signed bytes. Formats: tar_header.hpp, pax_header.hpp. Faults:
// a wrong header, a missing end marker (unless optional), and what would be read differently from
// what was meant (a part of several volumes, Solaris' sparse files). Further tars after the end
// marker, as cat joins them, are read as well; an archive of another kind there is a fault, and
// other bytes are skipped, with a note.
#pragma once

#include <memory>

#include "common/request/request.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `decoder` (borrowed) returns the archive from its start.
std::unique_ptr<Entries> open_tar_entries(Decoder& decoder, TarEnd end = TarEnd::required);

}  // namespace nodestage
