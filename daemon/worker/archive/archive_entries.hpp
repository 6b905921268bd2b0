// Entries of an archive: of a tar or a zip, which are read here, or of any other, which libarchive
// reads.
#pragma once

#include <memory>
#include <optional>

#include "common/request/request.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Entries that libarchive reads, from a file that can seek. Stricter than libarchive: a wrong
// checksum and an entry with a password are faults. Names are the archive's own bytes, except for
// 7z and others that have UTF-16 (libarchive also composes accents there: NFC).

// `source` (borrowed): a file of any kind; a tar only in tests, to compare our own reader with.
// LC_CTYPE must be a UTF-8 locale for all but zip and tar. `index`: that of a zip if it was read
// already; modes and times are then taken from it (libarchive takes a time before 1970 for one
// after 2106).
Result<std::unique_ptr<Entries>> open_file_entries(Container container, Source& source,
                                                   std::optional<ZipIndex> index = std::nullopt);

// Entries of a tar archive of any kind, straight from a decoder's blocks.
//
// Reads v7, ustar, GNU (long names, both forms of sparse files), and pax (with global headers);
// numbers in base 256; checksums of signed bytes. Formats: tar_header.hpp. Faults: a wrong header,
// a missing end marker (unless optional), and what would be read differently from what was meant
// (a part of several volumes, Solaris' sparse files). Further tars after the end marker, as cat
// joins them, are read as well; an archive of another kind there is a fault, and other bytes are
// skipped, with a note.

// `decoder` (borrowed) returns the archive from its start.
std::unique_ptr<Entries> open_tar_entries(Decoder& decoder, TarEnd end = TarEnd::required);

// The entries of a zip file, from its central directory.

// `source` (borrowed). If all members are stored or deflated, the archive is read here: entries in
// the order of their positions in the file, and most data by the writers' threads. libarchive reads
// any other archive. Stricter than libarchive: header and directory must agree on the name, and
// members must not overlap.
Result<std::unique_ptr<Entries>> open_zip_entries(Source& source);

// The header of a 7z file, which has the numbers by which libarchive allocates: they are checked
// against the bytes that there are before it reads them.
//
//   file    "7z\xbc\xaf\x27\x1c" | u8 version x 2 | u32 CRC-32 | u64 offset (after these 32 bytes)
//   at
//           12, u64 size at 20, u32 CRC-32 of the header
//   header  1, then properties, of which 4 has the streams and 5 the files; or 23: it is coded, and
//           the streams that follow say how
//   number  the ones at the top of its first byte say how many bytes follow, little-endian; the
//           rest of the first byte is the top of it
// (7zFormat.txt of the LZMA SDK.)

// Bytes before the place from which these offsets count.
inline constexpr std::size_t k_seven_zip_start = 32;

// Faults: a number in the header cannot be right, since what it counts takes more bytes than the
// header has; or a dictionary takes too much memory. What is damaged otherwise is left to the
// reader, and so is a header in a coding other than LZMA's.
Status check_seven_zip_header(const Source& source);

}  // namespace nodestage
