// DeflateBits: the bits of input that comes in pieces; the first of a byte is its lowest.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/worker/basis/bytes.hpp"

namespace nodestage {

struct DeflateBits {
  Bytes in;                // the rest of the piece
  std::uint64_t held = 0;  // taken from it and not used yet
  unsigned count = 0;      // of them

  // False: there are not so many.
  bool need(unsigned wanted) {
    for (; count < wanted; count += 8) {
      if (in.empty()) return false;
      held |= std::to_integer<std::uint64_t>(in.front()) << count;
      in = in.subspan(1);
    }
    return true;
  }

  std::uint32_t take(unsigned wanted) {
    const auto value = static_cast<std::uint32_t>(held & ((std::uint64_t{1} << wanted) - 1));
    held >>= wanted;
    count -= wanted;
    return value;
  }

  // Whole bytes, of which at most `taken` are from this piece.
  void give_back(std::size_t taken) {
    const std::size_t bytes = std::min<std::size_t>(count / 8, taken);
    in = {in.data() - bytes, in.size() + bytes};
    count -= static_cast<unsigned>(8 * bytes);
    held &= (std::uint64_t{1} << count) - 1;
  }
};

}  // namespace nodestage
