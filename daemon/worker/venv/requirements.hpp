// Checks a requirements file, as far as it matters before pip reads it.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// Refuses, for venv.build = "wheels-only", a line that would run code of the sources that it names
// (a local directory, an editable install, a source archive, a version control system), or would
// allow that (--no-binary). Follows -r and -c. pip itself reads the file and reports what is not
// understood here; venv_build.cpp, not this check, ensures that no such code runs.
Status check_wheels_only(const std::string& path);

// Refuses, with a text for the user, a file that can be no requirements file: text without a NUL.
Status check_is_requirements(const std::string& path);

// All that an offline build reads because a requirements file says so. No path is listed twice.
struct RequirementFiles {
  std::vector<std::string> texts;        // the file itself, and what it includes by -r and -c
  std::vector<std::string> wheels;       // files
  std::vector<std::string> directories;  // of wheels
  std::string unknown;                   // why it is not all known, for a user; empty: it is
};
RequirementFiles files_of_requirements(const std::string& path);

}  // namespace nodestage
