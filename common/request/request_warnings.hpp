// Warnings at submit about what is probably a mistake but could be intended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// When staging starts: a job's later, so a missing source can still appear; `nodestage run`'s now.
enum class Start { now, later };

// Printable sentences of one line each, without a "warning:" prefix. Uses only the names and
// stat(2) of the sources, and of a directory with newest= whether it is empty.
std::vector<std::string> request_warnings(const StageRequest& request, Start start);

// The least number of bytes that go to a node's disk: the sizes of the files that are datasets'
// sources (an archive counts with its packed size). Globs, directories, and filtered or optional
// datasets are not counted.
std::uint64_t least_bytes(const StageRequest& request);

}  // namespace nodestage
