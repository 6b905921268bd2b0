// The newest entries of a directory, or matches of a glob: what newest=N chooses.
//
// Newest is what has the latest mtime, to the nanosecond; of equal ones, the name that sorts last.
// What stage-out has not completed (".nodestage-*.tmp", directories with the mode
// k_unfinished_directory) does not count, and neither do FIFOs, sockets, and devices.
//  - A directory: its entries whose names include= and exclude= leave. Symbolic links do not count:
//    they would be copied as links, to something that is probably not chosen.
//  - A glob: its matches, links followed. One whose last component exclude= matches does not count,
//    nor a file that include= does not match, unless it is named like an archive.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

struct NewestEntry {
  std::string name;     // in the directory; of a glob's match: its path
  struct stat info {};  // all zero if only the name is known
};

struct NewestChoice {
  std::vector<NewestEntry> entries;  // the newest first
  std::size_t among = 0;             // how many there were to choose from
  std::string start;                 // of the paths of a glob's matches: not worth showing
};

// For item.source itself, a directory, and for the matches of item.source, a glob. Faults, also if
// there is nothing to choose from (ENOENT), include advice for the user.
Result<NewestChoice> newest_in_directory(const DatasetItem& item);
Result<NewestChoice> newest_of_matches(const DatasetItem& item,
                                       const std::vector<std::string>& paths);

// The path before the first component with a wildcard, braces, or a backslash: "/p/run*/x" → "/p/".
std::string start_of_matches(const std::string& source);

// The fault for a source with newest= that is a file.
Error newest_of_file(const std::string& path);

// A fault in reading what was chosen: if it is gone, with the advice for that.
Error fault_of_chosen(Error error);

// The names in the choice's order, without its start.
std::vector<std::string> names_of(const NewestChoice& choice);

// For the user: "the newest 2 of 12: b.pt, a.pt". Names many entries by their number.
std::string newest_text(const NewestChoice& choice);

// How much of the local disk a source will take, before it is written.
//
//  - zip (by its index) and plain files: exact
//  - plain tar: the archive's size
//  - other compressed formats: what they record of their content (gzip's last field, xz's index,
//    zstd's seek table or first frame), otherwise twice the source's size
// A directory is not walked, since that would burden the shared file system as much as the copy
// does: it is admitted as it grows (Allowance), except for the files that newest= chooses in it.
// How much include= and exclude= leave of a stream is not known either.

// For a file that is copied, without its holes.
Need need_of_file(const struct stat& info);

// For the chosen entries of a directory: of the files among them, exact.
Need need_of(const NewestChoice& choice);

// For a zip archive. A member with an invalid name is left to the extraction.
Need need_of_members(const ZipIndex& index, const EntryFilter& filter);

// For all of any other archive. Reads a few bytes at the source's ends.
Result<Need> need_of_archive(const Source& source, Coding coding, Container container);

// The number of blocks that an xz file records; 0: unknown.
std::uint64_t xz_blocks_of(const Source& source);

}  // namespace nodestage
