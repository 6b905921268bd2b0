// nodestage push [SOURCE...]
#pragma once

#include <string>
#include <vector>

namespace nodestage {

struct PushArguments {
  std::string socket;
  std::vector<std::string> names;  // sources of --stage-out; none: all of the job
  bool no_wait = false;
};

// Exit code: 0: everything that was asked for is in its target, and synced (with no_wait: was asked
// for); k_fault: it is not, or no answer; k_wrong_usage. Inside of `nodestage run`, also 128 + n if
// signal n stopped it.
int push_outputs(PushArguments arguments);

// The source of --stage-out that a user means by `name`, which can also be a path below
// `job_directory`, end in '/', and begin with "./".
std::string output_source_name(std::string name, const std::string& job_directory);

}  // namespace nodestage
