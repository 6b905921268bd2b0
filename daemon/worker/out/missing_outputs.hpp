// Sources of --stage-out that are not there when the job has ended: a name that was misspelt, or a
// program that did not come to write it.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

struct MissingOutputs {
  std::vector<bool> is_missing;   // of each item: wanted, not `optional`, and not there
  std::vector<std::string> left;  // what the job has made at the top of its directory, sorted
  bool are_all = false;           // of the wanted ones none is there
};

// By names alone; `left` is filled when something is missing. directory_fd: the job directory.
MissingOutputs find_missing(const StageRequest& request, JobOutcome outcome, int directory_fd);

// "reslts: nothing of that name in the job's directory, which holds results, log.txt"
std::string missing_note(const std::string& source, const std::vector<std::string>& left);

// Whether staging puts something there, by the request alone. `path`: below the job directory.
bool is_staged(const StageRequest& request, const std::string& path);

}  // namespace nodestage
