// nodestage plan [options]
#pragma once

#include <string>

#include "cli/base/request_texts.hpp"

namespace nodestage {

enum class PlanFormat { text, json };

struct PlanArguments {
  RequestTexts texts;
  std::string socket;  // of this machine's daemon, for shared items
  PlanFormat format = PlanFormat::text;
};

// Examines each source for about a second, changes nothing, and prints a forecast of its staging.
// Exit code: 0; 1: an item could not be staged in its present state, or the caller is root;
// k_wrong_usage.
int plan(const PlanArguments& arguments);

}  // namespace nodestage
