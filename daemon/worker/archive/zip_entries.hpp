// The entries of a zip file, from its central directory.
#pragma once

#include <memory>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// `source` (borrowed). If all members are stored or deflated, the archive is read here: entries in
// the order of their positions in the file, and most data by the writers' threads. libarchive reads
// any other archive. Stricter than libarchive: header and directory must agree on the name, and
// members must not overlap.
Result<std::unique_ptr<Entries>> open_zip_entries(Source& source);

}  // namespace nodestage
