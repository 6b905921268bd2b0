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
#pragma once

#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Faults: a number in the header cannot be right, since what it counts takes more bytes than the
// header has; or a dictionary takes too much memory. What is damaged otherwise is left to the
// reader, and so is a header in a coding other than LZMA's.
Status check_seven_zip_header(const Source& source);

}  // namespace nodestage
