// Globs as text: braces, which stand for several texts, and "**".
//
// Braces are those of bash: "{a,b}", "{000..127}" (as wide as the wider number), "{0..9..3}",
// "{a..e}", and braces in braces. What is not of these forms, such as "{a}", is literal, and so is
// "${" and what follows a backslash. Of the texts, a backslash before a brace or a comma is gone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_brace_texts = 10'000;

// Returns the position of the '}' of braces that start at text[at]; npos: none start there.
std::size_t end_of_braces(std::string_view text, std::size_t at);

bool has_braces(std::string_view text);

// Returns the texts in bash's order; `text` itself if it has no braces. E2BIG: more than
// k_max_brace_texts, or several MiB in all.
Result<std::vector<std::string>> brace_texts(std::string_view text);

// Returns where the first component "**" of a path starts, which means any number of directories,
// none too; npos: it has none.
std::size_t start_of_any_depth(std::string_view path);

}  // namespace nodestage
