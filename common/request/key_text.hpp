// Reads one key of an option's text, as the option's table (option_items.hpp) says.
#pragma once

#include <string>

#include "common/request/option_items.hpp"
#include "common/request/option_text.hpp"
#include "common/result.hpp"

namespace nodestage {

// Returns "strip" for "strip=1".
std::string key_name(const std::string& text);

// Sets what `text`, such as "strip=1", says about the item. The fault names the key, and the keys
// or values that are known. For DatasetItem, OutputItem, and VenvItem.
template <typename Item>
Status set_key(Item& item, const std::string& text, const SubmitPlace& place);

}  // namespace nodestage
