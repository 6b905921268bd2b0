// What a user may have meant by a word that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// " (did you mean 'strip'?)" for "stirp": of `known` the one that is nearest by its letters, case
// left aside, or begins with `word`. "" when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace nodestage
