// Log lines about refused callers. Anybody can cause them, so their number is bounded. Further
// refusals are counted, and the next line that is written reports their number.
#pragma once

#include <string>

namespace nodestage {

// `who`: "uid=1000", "peer 10.0.0.1".
void log_refusal(const std::string& who, const std::string& what);

}  // namespace nodestage
