// The size of an output, for the progress of its delivery.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/output_source.hpp"

namespace nodestage {

// Whether a file is in the target already: it is the source `paths[source]` (`path` is "") or
// below it.
using IsThere =
    std::function<bool(std::size_t source, const std::string& path, const struct stat& info)>;

// Returns the bytes of the files that are to be copied. What links lead to is not among them, nor
// what cannot be walked. Reads all names of directories.
std::uint64_t bytes_of(const OutputSource& source, const JobResults& job,
                       const LeavesOut& leaves_out, const IsThere& is_there = {});

}  // namespace nodestage
