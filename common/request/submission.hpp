// What turns a user's options into a request, wherever they are given: in the plugin, at the
// command. Runs as the user, in the process that submits; reads its environment and file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// Where this process is, as the user names it (links stay as they are), and the home directory.
SubmitPlace submit_place();

// One option's text into the request. Faults as in common/request/option_text.hpp, also of an item
// that does not go with those before it (check_together).
Status add_dataset(StageRequest& request, std::string_view text);
Status add_output(StageRequest& request, std::string_view text);
Status add_venv(StageRequest& request, std::string_view text);

// A build on a node knows nothing of this process's environment: what it will need of it, and what
// `more` names (common/request/venv_environment.hpp), is taken along. An environment that is there
// is not built.
void add_what_a_build_needs(VenvItem& venv, const std::vector<std::string>& more);

// The whole request, checked (check_together) and with this process's umask, as a worker takes it.
// A fault when it is too large.
Result<std::string> request_text(StageRequest request);

}  // namespace nodestage
