// Parses --stage-dataset, --stage-venv and --stage-out as `run` and `plan` take them.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

struct RequestTexts {  // in the order of the command line
  std::vector<std::string> datasets;
  std::vector<std::string> venvs;
  std::vector<std::string> outputs;
};

// Parses the options as the plugin does, for staging that starts now; prints warnings to stderr.
// The fault marks the wrong part of an option's text (common/request/option_text.hpp).
Result<StageRequest> to_request(const RequestTexts& texts);

// What to do about a fault of to_request(), and about options that contradict each other.
inline constexpr const char* k_option_advice = "`man 7 nodestage` describes every key.";
inline constexpr const char* k_options_advice = "Change the options so that they fit together.";

}  // namespace nodestage
