// The text of --stage-dataset=, --stage-venv=, --stage-out= and --stage-wait=, as a user types it.
//
//   SOURCE[:DEST][,key[=value]]...      --stage-dataset
//   SOURCE[:DEST][,key[=value]]...      --stage-venv
//   SOURCE:TARGET[,key[=value]]...      --stage-out
//
// A backslash makes ':' ',' '$' and '\' literal; before anything else it stays (glob(7) reads it).
// "$NAME" and "${NAME}" in a path are refused, since nobody would expand them; so is "scheme://". A
// leading "~" or "~/" is the home directory, "~name" another user's. Relative sources of datasets
// and targets of outputs start from the submit directory; paths are made absolute by text only,
// links are never resolved. Nothing here touches the file system, but for "~name" (NSS).
#pragma once

#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

struct SubmitPlace {
  std::string directory;  // absolute: where relative paths start
  std::string home;       // absolute
};

// A fault's `what` tells what is wrong, gives a correct example and marks the place in the text
// (common/request/option_mark.hpp).
Result<DatasetItem> parse_dataset_option(std::string_view text, const SubmitPlace& place);
Result<OutputItem> parse_output_option(std::string_view text, const SubmitPlace& place);
Result<VenvItem> parse_venv_option(std::string_view text, const SubmitPlace& place);
Result<StageWait> parse_wait_option(std::string_view text);  // all|node|none

}  // namespace nodestage
