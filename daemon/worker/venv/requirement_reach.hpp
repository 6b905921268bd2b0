// Finds what a requirements file requests and a build on a node cannot reach: addresses beyond a
// network, and variables that the build does not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// Fails with the first such line, in the file or in one that it includes by -r or -c. `environment`
// is the build's, as NAME=VALUE, and `log` pip's output, if it ran. A line with a marker (`;
// python_version < "3.8"`) counts only if the log shows that pip acted on it: only pip knows
// whether the marker is true.
Status check_reach(const std::string& path, const std::vector<std::string>& environment,
                   std::string_view log = {});

// Returns the text with each `${NAME}` (capital letters, digits, '_') replaced by its value; one
// without a value stays.
std::string with_variables(std::string_view text, const std::vector<std::string>& environment);

// Returns the first `${NAME}` in a text; "" if there is none.
std::string first_variable(std::string_view text);

}  // namespace nodestage
