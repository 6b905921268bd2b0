// BitString: bits that do not begin or end at byte boundaries, as in bzip2's streams. The first bit
// is the highest one of the first byte.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

class BitString {
 public:
  // Appends `bits` bits of `from`, starting at bit `first`.
  void append(Bytes from, std::uint64_t first, std::uint64_t bits);
  // Appends the lowest `bits` bits of `value`, at most 64.
  void append(std::uint64_t value, unsigned bits);
  void append(const BitString& other) { append(other.bytes(), 0, other.size()); }

  // Returns at most 64 bits, all of which must exist.
  [[nodiscard]] std::uint64_t number(std::uint64_t first, unsigned bits) const;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }  // the last one is padded with zeros
  void clear() {
    bytes_ = {};
    size_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t size_ = 0;
};

}  // namespace nodestage
