#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// Replaces `path` with a file of mode 0644. Not synced: after a crash the next daemon writes it
// again. A link or file under the temporary name is removed, never followed.
Status replace_textfile(const std::string& path, std::string_view text);

}  // namespace nodestage
