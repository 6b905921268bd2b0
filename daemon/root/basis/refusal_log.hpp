// Lines about refused callers. Anybody can cause them, so their number is bounded: what
// is beyond that is counted and told with the next line that is written.
#pragma once

#include <string>

namespace nodestage {

// `who`: "uid=1000", "peer 10.0.0.1".
void log_refusal(const std::string& who, const std::string& what);

}  // namespace nodestage
