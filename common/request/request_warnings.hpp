// Warns at submit about what is probably a mistake but could be intended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// When staging starts: for a job later, so a missing source can still appear; for `run` now.
enum class Start { now, later };

struct RequestLook {
  // Printable sentences of one line each, without a "warning:" prefix.
  std::vector<std::string> warnings;
  // The least number of bytes that go to a node's disk: the sizes of the files that are datasets'
  // sources (an archive counts with its packed size). Globs, directories, and filtered or optional
  // datasets are not counted.
  std::uint64_t least_bytes = 0;
};

// Looks at the names and stat(2) of sources and targets, and whether a directory with newest= is
// empty. A file system that does not answer makes this wait forever.
RequestLook look_at_request(const StageRequest& request, Start start);

// Does the same for at most a few seconds. After that, the result has one warning, which says so.
RequestLook look_in_time(const StageRequest& request, Start start);

}  // namespace nodestage
