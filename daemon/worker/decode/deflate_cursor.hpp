// DeflateCursor: where a DeflateBlocks stands in input and output while there is enough of both.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daemon/worker/decode/deflate_code.hpp"

namespace nodestage {

struct DeflateCursor {
  const std::byte* in;
  std::uint8_t* out;
  std::uint64_t bits;
  unsigned count;

  // At least 56 bits; those above `count` are the input's as well.
  void refill() {
    std::uint64_t next = 0;
    std::memcpy(&next, in, sizeof next);
    if constexpr (std::endian::native == std::endian::big) next = __builtin_bswap64(next);
    bits |= next << count;
    in += (63 - count) >> 3;
    count |= 56;
  }
  void use(unsigned used) {
    bits >>= used;
    count -= used;
  }
  void put(CodedSymbol symbol) {
    *out++ = static_cast<std::uint8_t>(symbol.value());
    use(symbol.bits());
  }
  std::uint32_t range(CodedSymbol symbol) {
    use(symbol.bits());
    const std::uint64_t mask = (std::uint64_t{1} << symbol.extra()) - 1;
    const std::uint32_t value = symbol.value() + static_cast<std::uint32_t>(bits & mask);
    use(symbol.extra());
    return value;
  }
  // In steps of several bytes where none of them is one that was just copied.
  void copy(std::uint32_t length, std::uint32_t distance) {
    constexpr std::uint32_t k_copy_step = 16;
    const std::uint8_t* from = out - distance;
    std::uint8_t* const end = out + length;
    if (distance >= k_copy_step) {
      for (std::uint8_t* to = out; to < end; to += k_copy_step, from += k_copy_step)
        std::memcpy(to, from, k_copy_step);
    } else if (distance == 1) {
      std::fill(out, end, *from);
    } else {
      for (std::uint8_t* to = out; to < end;) *to++ = *from++;
    }
    out = end;
  }
};

}  // namespace nodestage
