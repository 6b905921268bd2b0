// The results that are left in a job's directory when they could not be delivered.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// The paths below the directory that --stage-out names, that exist, and whose when= applies.
std::vector<std::string> kept_results(const StageRequest& request, JobOutcome outcome,
                                      int directory_fd);

// "Fetch them with: cp -a /d/results ELSEWHERE && rm -rf /d"
std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory);

}  // namespace nodestage
