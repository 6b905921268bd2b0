// Names entries of the cache as users see and type them: by the start of an entry's key, or of
// "<uid>.<key>".
#pragma once

#include <string>
#include <vector>

#include "common/wire/protocol.hpp"

namespace nodestage {

using CacheRows = std::vector<CacheRow>;

// Returns the rows whose name or key starts with `text`; none for an empty one.
std::vector<const CacheRow*> rows_named(const CacheRows& rows, const std::string& text);

// Returns the shortest name of at least eight characters that means this row alone.
std::string short_name(const CacheRows& rows, const CacheRow& row);

}  // namespace nodestage
