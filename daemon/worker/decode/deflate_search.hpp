// Where a block of deflate data (RFC 1951) begins, searched for in the middle of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

struct BlockStart {
  std::uint64_t bit;
  // Of a stored block: it may begin as well at any of so many bits before this one, all of them 0.
  unsigned zeros_before;
};

// Searches `data` from `from` on, up to the bit `end`, for a block that is not the last one, and
// has codes of its own or stored bytes that another such block follows. Bytes that look like it may
// be none, which is rare. Returns nothing soon after `stop` is set, and when `headers` is 0: this
// is how many more headers it may look at closely, since data can be made to look like one
// everywhere.
std::optional<BlockStart> find_block(Bytes data, std::uint64_t from, std::uint64_t end,
                                     const std::atomic<bool>& stop, std::uint64_t& headers);

}  // namespace nodestage
