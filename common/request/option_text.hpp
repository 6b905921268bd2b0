// Parsers for the values of --stage-dataset, --stage-venv, --stage-out and --stage-wait.
//
//   SOURCE[:DEST][,key[=value]]...      --stage-dataset
//   SOURCE[:DEST][,key[=value]]...      --stage-venv
//   SOURCE:TARGET[,key[=value]]...      --stage-out
//
// In braces that stand for several names (common/text/glob_text.hpp), ':' and ',' separate nothing
// of the option. A backslash makes ':' ',' '$' and '\' literal; before any other character it is
// kept (for glob(7)). "$NAME" and "${NAME}" in a path are refused, since nothing would expand them;
// so is "scheme://". What is below the job directory may begin with "$SLURM_TMPDIR/". A leading "~"
// or "~/" is the home directory, "~name" another user's. Relative paths of datasets' sources and
// outputs' targets start from the submit directory. Paths are made absolute by text only; links are
// never resolved. Nothing here reads the file system, except "~name" (NSS).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// A refused option as its user sees it: what is wrong, the text as it was typed, a mark under the
// part that is wrong, and what to do, if that is known.
//
//   --stage-out: when=sucess (did you mean 'success'?): only always, success or failure
//     --stage-out=results:out,when=sucess
//                             ^~~~~~~~~~~
//   the form is --stage-out=SOURCE:TARGET[,key[=value]]..., for example ...
struct TextRange {  // bytes [begin, end) of an option's text; if empty, the mark is at `begin`
  std::size_t begin = 0;
  std::size_t end = 0;
};

// `option` is a name such as "stage-out". The error's text() is these three or four lines,
// printable (common/text/human.hpp), without a final newline. Of a long text only the part around
// `place` is shown.
Error marked(std::string_view option, std::string_view text, TextRange place, const Error& cause);

struct SubmitContext {
  std::string directory;  // absolute: where relative paths start
  std::string home;       // absolute
};

// A fault's `what` says what is wrong, gives a correct example, and marks the wrong part of the
// text.
Result<DatasetItem> parse_dataset_option(std::string_view text, const SubmitContext& place);
Result<OutputItem> parse_output_option(std::string_view text, const SubmitContext& place);
Result<VenvItem> parse_venv_option(std::string_view text, const SubmitContext& place);
Result<StageWait> parse_wait_option(std::string_view text);  // all|node|none

}  // namespace nodestage
