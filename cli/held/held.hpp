// nodestage held
#pragma once

#include <string>

namespace nodestage {

// The caller's results that could not be delivered and are kept on this node; root: everybody's.
// The exit code: 0, also when there are none; 1 (no answer).
int show_held(const std::string& socket);

}  // namespace nodestage
