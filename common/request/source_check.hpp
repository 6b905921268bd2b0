// Whether a dataset's source is there now, as the submitting user sees it.
#pragma once

#include <string>

namespace nodestage {

// A name that exists literally, or a glob with at least one match. What cannot be told (a directory
// that may not be read) counts as there: this is for a warning.
bool source_exists(const std::string& source);

}  // namespace nodestage
