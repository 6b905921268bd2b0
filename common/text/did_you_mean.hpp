// Suggests a word for one that is not known.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The index of the word of `known` that has the nearest spelling to `word`, or starts with it;
// nothing if none is near. Both are in lower case.
std::optional<std::size_t> nearest_word(std::string_view word,
                                        const std::vector<std::string_view>& known);

// Returns " (did you mean 'strip'?)" for "stirp": names the word of `known` that has the nearest
// spelling, ignoring case, or starts with `word`. "" if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace nodestage
