// Finds the variables of a staged virtual environment: at submit, those that a build will need; in
// the task, PATH.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The variables of this process that a build may need, as NAME=VALUE: the allow-list in the source
// and those that `more` names ("NAME", or "PREFIX*" for all with that prefix). Sorted, without
// empty values. Not thread-safe, as environ is not.
std::vector<std::string> environment_for_build(const std::vector<std::string>& more);

// Returns whether a program is looked up in PATH by it, as a shell does: printable ASCII without
// '/' that starts with a letter or a digit.
bool is_program_name(std::string_view name);
// Returns the program of that name that a shell would find in `path`; "" if there is none. Relative
// parts of `path` are ignored.
std::string program_in_path(std::string_view path, std::string_view name);
// Returns the python3, or else the python, that a shell would find in `path`; "" if there is none.
std::string python_in(std::string_view path);

// Return `path` with `directory` at its start only, and `path` without it.
std::string path_with_first(std::string_view path, std::string_view directory);
std::string path_without(std::string_view path, std::string_view directory, char separator = ':');

}  // namespace nodestage
