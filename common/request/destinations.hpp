// Where the items of a request go, by their names alone, and that they do not meet there.
#pragma once

#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// Where `item` would go: its destination, or the default one.
std::string destination_of(const DatasetItem& item);

// Refuses what can only be a mistake in the request as a whole: two items (the venv is one) with
// one destination, or one inside another, or one variable name. The fault names both items and what
// to do.
Status check_together(const StageRequest& request);

}  // namespace nodestage
