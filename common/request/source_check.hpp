// What a dataset's source is now, as the submitting user sees it.
#pragma once

#include <string>

namespace nodestage {

// True for a name that exists literally and for a glob with at least one match. If that cannot be
// determined (in an unreadable directory, or behind a "**"), it is true, since the result is used
// for a warning only. Of a source with braces, each name must exist.
bool source_exists(const std::string& source);

// The first of these names that does not exist, or the source itself; "": all exist.
std::string missing_part(const std::string& source);

// Whether it is a directory that can be read and has no entry.
bool is_empty_directory(const std::string& path);

}  // namespace nodestage
