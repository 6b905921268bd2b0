// The parts of an option's text: paths and keys, with their escapes resolved and their positions.
// option_text.hpp says what an option may hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/option_items.hpp"
#include "common/request/option_text.hpp"
#include "common/result.hpp"

namespace nodestage {

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
