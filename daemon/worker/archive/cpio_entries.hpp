// Entries of a cpio archive, straight from a decoder's blocks.
//
// Reads newc, crc, odc, and bin in both byte orders (cpio_header.hpp). The first header decides,
// and all others must have the same form. Faults:
//  - wrong numbers; a name of no bytes, of more than 65,535 bytes, or without its NUL
//  - a symbolic link of more than 4,095 bytes
//  - anything but a header between two entries
//  - a wrong checksum (crc), and an input that ends before the trailer
// What follows the trailer is skipped.
//
// libarchive's reader (3.6.2) is not used. It links files of odc and bin whose shortened inode
// numbers are equal, so one of them gets the other's data. It ignores a wrong checksum and all but
// the first of joined archives. Its time for n files with several names grows with the square of n.
//
// Regular files with more than one name and the same device and inode are one file. The first name
// becomes a file, the others hard links to it, each with the data that stand there (newc and crc:
// only the last one has data). Other entries with several names (symbolic links, FIFOs) are created
// for each name, as GNU cpio does for symbolic links. At most 256 MiB are remembered about files
// whose other names are still to come (cpio_links.hpp); more is a fault.
#pragma once

#include <memory>

#include "daemon/worker/archive/entries.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `decoder` (borrowed) returns the archive from its start.
std::unique_ptr<Entries> open_cpio_entries(Decoder& decoder);

}  // namespace nodestage
