// Entries of a zip file, by its central directory.
#pragma once

#include <memory>

#include "daemon/worker/entries.hpp"
#include "daemon/worker/source.hpp"

namespace nodestage {

// `source` is borrowed. Members that are all stored or deflated are read by this program, in the
// order of their places and their data by several threads; else libarchive reads the archive.
Result<std::unique_ptr<Entries>> open_zip_entries(Source& source);

}  // namespace nodestage
