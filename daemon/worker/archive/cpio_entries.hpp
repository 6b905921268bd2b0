// Entries of a cpio archive, straight from a decoder's blocks.
//
// newc, crc, odc and bin in both byte orders (cpio_header.hpp); the first header tells which, and
// all others are of the same form. Wrong numbers, a name of no or more than 65,535 bytes or without
// its NUL, a symbolic link of more than 4,095 bytes, what is no header between two entries, a wrong
// checksum (crc) and the input's end before the trailer are faults. What follows the trailer is
// passed over.
//
// Regular files of more than one name and the same device and inode are one file: its first name is
// a file's, the others are hard links to that one; each with the data that stand there (newc and
// crc: those of the last one only). What else has several names (symbolic links, FIFOs) is made for
// each, as GNU cpio does for symbolic links. Of files whose other names are still to come at most
// 256 MiB are remembered (cpio_links.hpp): more is a fault.
#pragma once

#include <memory>

#include "daemon/worker/archive/entries.hpp"
#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// `decoder` (borrowed) gives the archive from its start.
std::unique_ptr<Entries> open_cpio_entries(Decoder& decoder);

}  // namespace nodestage
