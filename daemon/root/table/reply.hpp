// How the daemon answers its callers.
#pragma once

#include <cstdint>
#include <functional>

#include "common/wire/protocol.hpp"

namespace nodestage {

// Sends a message to the caller. Called from the loop; may be called several times (progress).
using Reply = std::function<void(const Message&)>;
// Names a caller that waits; 0: one that has its answer already.
using Ticket = std::uint64_t;

}  // namespace nodestage
