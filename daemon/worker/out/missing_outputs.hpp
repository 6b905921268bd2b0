// Sources of --stage-out that do not exist at the end of the job: a name was misspelled, or a
// program did not write its results.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

struct MissingOutputs {
  std::vector<bool> is_missing;   // for each item: wanted, not `optional`, and missing
  std::vector<std::string> left;  // what the job made at the top level of its directory, sorted
  bool are_all = false;           // every wanted item is missing
};

// Checks names alone. `left` is filled if something is missing.
MissingOutputs find_missing(const StageRequest& request, JobOutcome outcome, const JobTree& job);

// "reslts: nothing of that name in the job's directory, which holds results, log.txt"
std::string missing_note(const std::string& source, const std::vector<std::string>& left);

// Whether staging puts something there, according to the request alone. `path`: below the job
// directory.
bool is_staged(const StageRequest& request, const std::string& path);

}  // namespace nodestage
