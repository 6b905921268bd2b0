// How much of the local disk a source will take, before it is written.
//
//  - zip (by its index) and plain files: exact
//  - plain tar: the archive's size
//  - other compressed formats: what they record of their content (gzip's last field, xz's index,
//    zstd's seek table or first frame), otherwise twice the source's size
// A directory is not walked, since that would burden the shared file system as much as the copy
// does: it is admitted as it grows (Allowance), except for the files that newest= chooses in it.
// How much include= and exclude= leave of a stream is not known either.
#pragma once

#include "daemon/worker/archive/archive_contents.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// For a file that is copied, without its holes.
Need need_of_file(const struct stat& info);

// For the chosen entries of a directory: of the files among them, exact.
Need need_of(const NewestChoice& choice);

// For a zip archive. A member with an invalid name is left to the extraction.
Need need_of_members(const ArchiveContents& contents, const EntryFilter& filter);

// For all of any other archive. Reads a few bytes at the source's ends.
Result<Need> need_of_archive(const Source& source, Coding coding, Container container);

// The number of blocks that an xz file records; 0: unknown.
std::uint64_t xz_blocks_of(const Source& source);

}  // namespace nodestage
