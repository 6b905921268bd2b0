// nodestage wait [NAME...]
#pragma once

#include <string>
#include <vector>

namespace nodestage {

struct WaitArguments {
  std::string socket;
  std::vector<std::string> names;  // none: all datasets of the job
  bool quiet = false;
};

// Exit code: 0: the datasets are in place; 1: staging failed, or no answer; k_wrong_usage.
int wait_for_datasets(const WaitArguments& arguments);

}  // namespace nodestage
