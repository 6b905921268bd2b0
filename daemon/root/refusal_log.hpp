// Lines about refused callers. Anybody on the node can cause them, so their number is bounded: what
// is beyond that is counted and told with the next line that is written.
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

void log_refusal(std::uint32_t uid, const std::string& what);

}  // namespace nodestage
