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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/option_items.hpp"
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

// The parts of an option's text: paths and keys, with their escapes resolved and their positions.
// option_text.hpp says what an option may hold.

// Returns a fault whose advice is the form of a correct option.
Error wrong_form(std::string what, std::string_view example);

// A part with its escapes resolved, its position in the text, and that of its first $NAME.
struct OptionPart {
  std::string text;
  TextRange place;
  std::optional<TextRange> variable = {};
};

// The text split at unescaped separators outside of braces (common/text/glob_text.hpp).
struct OptionCut {
  std::vector<OptionPart> paths;  // separated by ':'
  std::vector<OptionPart> keys;   // after the first ','
};

// Every reader here keeps `at` on the part that it reads, so that a fault can mark it.
Result<OptionCut> cut_option(std::string_view text, TextRange& at, std::string_view example);

// Refuses a variable in a path: nothing expands what Slurm reads from a script.
Status check_variables(const OptionPart& part, std::string_view text, TextRange& at);

// Refuses braces that stand for too many names, or for absolute paths.
Status check_braces(const OptionPart& part, TextRange& at);

// Returns "a/b" for "./a//b/", since destinations and outputs' sources are compared as text.
std::string tidy_path(std::string_view path);

// Reads one key of an option's text, as the option's table (option_items.hpp) says.

// Returns "strip" for "strip=1".
std::string key_name(const std::string& text);

// Sets what `text`, such as "strip=1", says about the item. The fault names the key, and the keys
// or values that are known. For DatasetItem, OutputItem, and VenvItem.
template <typename Item>
Status set_key(Item& item, const std::string& text, const SubmitContext& place);

}  // namespace nodestage
