// The entries of a zip file, by its central directory.
#pragma once

#include <memory>

#include "daemon/worker/archive/entries.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// `source` (borrowed). An archive whose members are all stored or deflated is read here: entries in
// the order of their places in the file, and most data by the writers' threads. libarchive reads
// any other one. Stricter than libarchive: header and directory must agree on the name, and members
// must not overlap.
Result<std::unique_ptr<Entries>> open_zip_entries(Source& source);

}  // namespace nodestage
