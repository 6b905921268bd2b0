// What in a request is likely a mistake, but may be meant: told at submit, and no reason to refuse.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// Whether what is missing now can still come into being: a job starts later, `nodestage run` now.
enum class Start { now, later };

// Printable sentences of one line, without "warning". Looks at the names and at what stat(2) says
// of the sources; opens nothing.
std::vector<std::string> request_warnings(const StageRequest& request, Start start);

// At least so many bytes go to a node's disk: the files that are named as sources of datasets, an
// archive counted as large as it is packed. Globs, directories and what is filtered or optional are
// not counted.
std::uint64_t least_bytes(const StageRequest& request);

}  // namespace nodestage
