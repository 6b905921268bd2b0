// nodestage plan [options]
#pragma once

#include "cli/base/request_texts.hpp"

namespace nodestage {

enum class PlanFormat { text, json };

struct PlanArguments {
  RequestTexts texts;
  PlanFormat format = PlanFormat::text;
};

// Looks at each source for about a second, changes nothing, and prints what staging it would be
// like. The exit code: 0; 1 an item could not be staged as it is now, or this is root;
// k_wrong_usage.
int plan(const PlanArguments& arguments);

}  // namespace nodestage
