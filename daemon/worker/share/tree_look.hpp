// TreeLook: what the kernel says of everything in a directory, without opening a file of it.
//
// The digest is SHA-256. That of a directory is over its own attributes and the sorted digests of
// its entries, so it depends neither on the order in which a file system lists names nor on the
// threads that look. Of an entry it has the name, the mode with the type, size, mtime, ctime, inode
// number and device, and a link's text. Users cannot set a ctime, and whatever changes a file or
// directory (a write, a rename, another hard link, attributes, ACLs) sets it.
//
// Each directory is looked at without a cache (AT_STATX_FORCE_SYNC), and its entries as stat(2)
// does, which costs a network file system little: NFS has their attributes from the listing, and
// keeps them for `acregmax` (60 s by default). So an entry that is added, removed, renamed or
// replaced is found at once everywhere, and a write to a file during a copy by the look after it,
// which asks for files without a cache, too. If another host writes to a file in place, a node that
// has looked at that file within `acregmax` may not know it yet, and find it a little later: until
// then its jobs get the tree as it was. cache.min_age does not help, as it counts from the ctime
// that is remembered. To open each file would show it at once, and take as many calls as a copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

struct TreeLook {
  std::string why_not;  // why the directory must not be kept; then nothing else counts
  FileLook top;
  std::string digest;         // of the top and everything below, in hexadecimal digits
  std::uint64_t entries = 0;  // below the top
  std::uint64_t bytes = 0;    // of the regular files among them, each name
  std::int64_t changed = 0;   // the latest ctime, in nanoseconds since 1970
  std::string newest;         // the path below the top of what has it; "": the top
};

struct TreeLookOptions {
  const EntryFilter& filter;  // what it excludes is not looked at; the rest of it is ignored
  LinksOut links;             // followed: what is behind a link that leads out is looked at, too
  unsigned threads;           // threads that compute; more may wait for the file system
  SourceTrust& trust;         // asked for the top, each mount below it, and what is behind links
  // Not null: the tree was copied just now, so that files are asked for without a cache, too. The
  // look ends when this is set.
  const std::atomic<bool>* copy_stop = nullptr;
};

// Looks at the directory `fd` (borrowed, O_PATH is enough), which the user named `path`. A part of
// it that cannot be looked at is a reason not to keep it.
TreeLook look_at_tree(const std::string& path, int fd, const TreeLookOptions& way);

}  // namespace nodestage
