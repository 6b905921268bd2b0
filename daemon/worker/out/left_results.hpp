// Finds what a job has left in its directory that --stage-out does not name. It would be lost with
// the directory, although a name in the option may be misspelled.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/out/staged_data.hpp"

namespace nodestage {

// The paths, sorted, of what is neither the source of an output nor staged and unchanged; looks
// into directories above such sources. What cannot be examined counts, too. Empty directories,
// sockets and the like, and links that lead nowhere, to such sources, or out of the directory, hold
// nothing that could be lost.
std::vector<std::string> left_results(const StageRequest& request, const StagedData& staged,
                                      const JobTree& job);

// Returns `left` and what lies directly in them, some thousands at most, to compare names with.
std::vector<std::string> candidates(const std::vector<std::string>& left, const JobTree& job);

// Returns the candidate whose name is so near to that of `source` (of --stage-out) that it was
// probably meant; "" if there is none. Names of one series ("rank0.log" and "rank1.log", or with
// the name of the node) are not near.
std::string probably_meant(const std::string& source, const std::vector<std::string>& among,
                           const std::string& node);

// Returns whether all of them are files with names like those of logs.
bool are_logs(const std::vector<std::string>& left, const JobTree& job);

}  // namespace nodestage
