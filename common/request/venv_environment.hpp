// What an environment variable has to do with a staged Python environment: at submit, what a build
// will need; in the task, PATH.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The variables that a build may need of a submission, as NAME=VALUE: the allow-list of the source
// and what `more` names ("NAME", or "PREFIX*" for all that begin so). Sorted; empty values are left
// out. Not thread-safe, as environ is not.
std::vector<std::string> environment_for_build(const std::vector<std::string>& more);

// The python3, or else python, that a shell would find in `path`; "" for none. Relative parts of
// `path` are passed over.
std::string python_in(std::string_view path);

// `path` with `directory` first, and nowhere else; without it at all.
std::string path_with_first(std::string_view path, std::string_view directory);
std::string path_without(std::string_view path, std::string_view directory);

}  // namespace nodestage
