// RelayPlan: the daemon's answer to a relay worker: from which node it gets what it does not read
// itself.
//
// A file of one fixed-size record that the daemon overwrites in place and the relay worker has open
// for reading (k_worker_answer_fd). `state` is written last. It is a file so that a restarted
// daemon can still answer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/enum_range.hpp"
#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_relay_key_bytes = 32;

enum class RelayPart : std::uint32_t {
  unknown = 0,  // not decided yet
  head = 1,     // reads the original itself
  link = 2,     // gets it from `node`
  off = 3,      // nothing is relayed; `why` says why
};
constexpr EnumRange<RelayPart> range_of(RelayPart) { return {RelayPart::unknown, RelayPart::off}; }

struct RelayPlan {
  RelayPart part = RelayPart::unknown;
  std::array<std::uint8_t, k_relay_key_bytes> key{};  // of the chain; for `head` and `link`
  std::string node;                                   // of `link`
  std::string address;                                // of that node, numeric
  std::uint16_t port = 0;
  std::string why;

  bool operator==(const RelayPlan&) const = default;
};

// `fd` is borrowed. Texts are shortened to what the record holds.
Status write_relay_plan(int fd, const RelayPlan& plan);
// A file that is too short, or says nothing that makes sense, reads as `unknown`.
Result<RelayPlan> read_relay_plan(int fd);

}  // namespace nodestage
