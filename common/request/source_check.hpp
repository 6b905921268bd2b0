// Whether a dataset's source exists now, as the submitting user sees it.
#pragma once

#include <string>

namespace nodestage {

// True for a name that exists literally and for a glob with at least one match. If that cannot be
// determined (in an unreadable directory), it is true, since the result is used for a warning only.
bool source_exists(const std::string& source);

}  // namespace nodestage
