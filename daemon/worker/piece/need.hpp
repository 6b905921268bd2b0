// What a source will take of the local disk, before it is written.
//
// Exact from an index (zip) and for plain files; the archive's size for plain tar and cpio; what
// the compressed format says of its content (gzip's last field, xz's index, zstd's seek table or
// first frame); else twice the source's size. A directory is not walked, as that would cost the
// shared file system what the copy costs: it is admitted as it grows (Allowance). What include= and
// exclude= leave of a stream is not known either.
#pragma once

#include "daemon/worker/archive/archive_contents.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Of a file that is copied, less its holes.
Need need_of_file(const struct stat& info);

// Of a zip archive; a member whose name is no good is left to its extraction.
Need need_of_members(const ArchiveContents& contents, const EntryFilter& filter);

// Of any other archive, all of it. Reads a few bytes at the source's ends.
Result<Need> need_of_archive(const Source& source, Coding coding, Container container);

// How many blocks an xz file tells of; 0: it does not.
std::uint64_t xz_blocks_of(const Source& source);

}  // namespace nodestage
