// Checks a requirements file, as far as it matters before pip reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::string_view k_file_scheme = "file://";

// Reads a file of at most 4 MiB as UTF-8, or as UTF-16 with a byte order mark, as pip does.
Result<std::string> read_requirements(const std::string& path);

// Returns whether the text of such a file requires anything.
bool has_requirements(std::string_view text);

// Refuses, for venv.build = "wheels-only", a line that would run code of the sources that it names
// (a local directory, an editable install, a source archive, a version control system), or would
// allow that (--no-binary). Follows -r and -c. pip itself reads the file and reports what is not
// understood here; venv_build.cpp, not this check, ensures that no such code runs.
Status check_wheels_only(const std::string& path);

// All that an offline build reads because a requirements file says so. No path is listed twice.
struct RequirementFiles {
  std::vector<std::string> texts;        // the file itself, and what it includes by -r and -c
  std::vector<std::string> wheels;       // files
  std::vector<std::string> directories;  // of wheels
  std::string unknown;                   // why it is not all known, for a user; empty: it is
};
RequirementFiles files_of_requirements(const std::string& path);

// Finds what a requirements file requests and a build on a node cannot reach: addresses beyond a
// network, and variables that the build does not have.

// Fails with the first such line, in the file or in one that it includes by -r or -c. `environment`
// is the build's, as NAME=VALUE, and `log` pip's output, if it ran. A line with a marker (`;
// python_version < "3.8"`) counts only if the log shows that pip acted on it: only pip knows
// whether the marker is true.
Status check_reach(const std::string& path, const std::vector<std::string>& environment,
                   std::string_view log = {});

// Returns the text with each `${NAME}` (capital letters, digits, '_') replaced by its value; one
// without a value stays.
std::string with_variables(std::string_view text, const std::vector<std::string>& environment);

}  // namespace nodestage
