// An archive read to its end, or to a fault, by one of our readers: nothing is written.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "input.hpp"

// A source's surroundings.
struct Reading {
  std::atomic<bool> stop = false;
  nodestage::RateLimit rate{-1};
  nodestage::Meter meter{rate, stop};
};

struct SeenEntry {
  nodestage::Entry entry;
  std::uint64_t end = 0;   // of its last block
  std::uint64_t hash = 0;  // of its data without holes
};

struct SeenArchive {
  std::vector<SeenEntry> entries;
  bool is_whole = false;
  std::string note;  // of what is behind the archive's end
};

inline constexpr std::size_t k_most_entries = 1000;
inline constexpr std::uint64_t k_most_bytes = 16 << 20;  // a bomb is no finding

// FNV-1a over place and value of each byte that is not 0.
inline void add_block(SeenEntry& seen, const nodestage::Block& block) {
  std::uint64_t at = block.offset;
  for (const std::byte value : block.data.bytes()) {
    if (value != std::byte{0}) {
      for (const std::uint64_t part : {at, std::to_integer<std::uint64_t>(value)})
        seen.hash = (seen.hash ^ part) * 0x100000001b3U;
    }
    ++at;
  }
  seen.end = std::max(seen.end, at);
}

inline SeenArchive read_archive(nodestage::Entries& entries) {
  SeenArchive seen;
  std::uint64_t bytes = 0;
  while (seen.entries.size() < k_most_entries && bytes < k_most_bytes) {
    const auto next = entries.next();
    if (!next) {
      require(!next.error().text().empty());
      return seen;
    }
    if (*next == nullptr) {
      seen.is_whole = true;
      seen.note = entries.note();
      return seen;
    }
    seen.entries.push_back({**next});
    while (entries.data() == nullptr && bytes < k_most_bytes) {
      auto block = entries.read();
      if (!block) return seen;
      if (block->data.empty()) break;
      bytes += block->data.size();
      add_block(seen.entries.back(), *block);
    }
  }
  return seen;
}
