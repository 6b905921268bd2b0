// Looks, before the job runs, at an output's target as the submitting user sees it.
#pragma once

#include <string>

#include "common/request/request.hpp"

namespace nodestage {

// Returns why the output probably cannot be delivered to its target, in a sentence; "" when nothing
// speaks against it. Looks at the target, or at what exists of the path to it, and changes nothing.
// What lies behind a pattern such as %j is not known yet.
std::string about_target(const OutputItem& item);

}  // namespace nodestage
