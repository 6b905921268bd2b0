// Looks at a dataset's source as the submitting user sees it now.
#pragma once

#include <string>

namespace nodestage {

// Returns true for a name that exists literally and for a glob with at least one match. Returns
// true if that cannot be determined (in an unreadable directory, or behind a "**"), since it is
// used for a warning only. Of a source with braces, each name must exist.
bool source_exists(const std::string& source);

// The first of these names that does not exist, or the source itself; "": all exist.
std::string missing_part(const std::string& source);

// Returns whether it is a directory that can be read and has no entry.
bool is_empty_directory(const std::string& path);

}  // namespace nodestage
