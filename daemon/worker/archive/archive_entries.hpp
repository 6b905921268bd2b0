// Entries that libarchive reads.
//
// zip, 7z, and the others of libarchive come from a file that can seek. tar comes from a decoded
// stream, and only tests use it, to compare our own reader with. Stricter than libarchive: a tar
// without its end marker, a wrong checksum, and an entry with a password are faults. Names are the
// archive's own bytes, except for 7z and others that have UTF-16 (libarchive also composes accents
// there: NFC).
#pragma once

#include <memory>
#include <optional>

#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `decoder` (borrowed) returns the archive from its start.
Result<std::unique_ptr<Entries>> open_stream_entries(Container container, Decoder& decoder);

// `source` (borrowed): a file of any kind but tar. LC_CTYPE must be a UTF-8 locale for all
// but zip. `index`: that of a
// zip if it was read already; modes and times are then taken from it (libarchive takes a time
// before 1970 for one after 2106).
Result<std::unique_ptr<Entries>> open_file_entries(Container container, Source& source,
                                                   std::optional<ZipIndex> index = std::nullopt);

}  // namespace nodestage
