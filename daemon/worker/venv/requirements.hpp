// What a requirements file asks for, as far as it matters before pip sees it.
#pragma once

#include <string>

#include "common/result.hpp"

namespace nodestage {

// With venv.build = "wheels-only": a fault, in words, for a line that would run code of the sources
// that it names (a local directory, an editable install, a source archive, a version control
// system), or would allow that (--no-binary). Follows -r and -c. pip itself reads the file; what is
// not understood here is its to complain of, and that no code runs is not left to this
// (venv_build.cpp).
Status check_wheels_only(const std::string& path);

// Whether a file that is no archive can be a requirements file: text, without a NUL. A fault in the
// words of the user.
Status check_is_requirements(const std::string& path);

}  // namespace nodestage
