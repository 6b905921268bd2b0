// nodestage pack --index=FILE
#pragma once

#include <string>

namespace nodestage {

// Writes the index of a gzip file beside it (daemon/worker/decode/gzip_index.hpp), and replaces one
// that is there. Exit code as that of pack_directory().
int pack_index(const std::string& file);

}  // namespace nodestage
