// What came of a gzip file, and whether two ways to decode it agree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reading.hpp"

struct GzipSeen {
  std::string data;
  std::string fault;
  std::optional<std::uint64_t> junk_at;
};

// `decoding`: a Decoding, or a Decoder.
template <typename Decoding>
GzipSeen seen_of(Decoding& decoding, std::uint64_t file_bytes) {
  GzipSeen seen;
  for (;;) {
    const auto block = decoding.next();
    if (!block) seen.fault = block.error().text();
    if (!block || block->empty() || seen.data.size() > k_most_bytes) break;
    seen.data.append(reinterpret_cast<const char*>(block->bytes().data()), block->size());
    require(decoding.position() <= file_bytes);
  }
  seen.data.resize(std::min(seen.data.size(), k_most_bytes));
  if (const auto junk = decoding.junk()) seen.junk_at = junk->at;
  return seen;
}

// They return the same data, or both find a fault.
inline void require_same(const GzipSeen& one, const GzipSeen& many) {
  constexpr std::size_t k_undefined = 512;
  std::size_t least = std::min(one.data.size(), many.data.size());
  // Before a fault, ISA-L may return a few bytes that it has not decoded.
  if (!one.fault.empty() || !many.fault.empty()) least -= std::min(least, k_undefined);
  require(std::string_view(one.data).substr(0, least) ==
          std::string_view(many.data).substr(0, least));
  if (one.data.size() == k_most_bytes || many.data.size() == k_most_bytes) return;
  require(one.fault.empty() == many.fault.empty());
  require(!one.fault.empty() || (one.data == many.data && one.junk_at == many.junk_at));
}
