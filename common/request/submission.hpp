// Builds a request from a user's options, for the plugin and the command. Runs as the user, in the
// submitting process; reads its environment and file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// The current directory as the user names it (links are not resolved), and the home directory.
SubmitContext submit_place();

// Adds one option's item to the request. Faults as in common/request/option_text.hpp, also for an
// item that conflicts with earlier ones (check_together), and for "file/" and "a:b" where a file of
// the name "file" or "a:b" exists.
Status add_dataset(StageRequest& request, std::string_view text);
Status add_output(StageRequest& request, std::string_view text);
Status add_venv(StageRequest& request, std::string_view text);

// Adds to the request what a build on the node needs of this process's environment, with what
// `more` names (common/request/job_environment.hpp). Does nothing for an existing virtual
// environment, which is not built.
void add_what_a_build_needs(VenvItem& venv, const std::vector<std::string>& more);

// Returns the encoded request with this process's umask, after check_together. E2BIG if it is
// larger than k_max_request_bytes.
Result<std::string> request_text(StageRequest request);

}  // namespace nodestage
