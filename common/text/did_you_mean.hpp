// Suggestions for a word that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// " (did you mean 'strip'?)" for "stirp": names the word of `known` that has the nearest spelling,
// ignoring case, or starts with `word`. "" if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace nodestage
