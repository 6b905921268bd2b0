// What a reader tells of an archive, as lines to compare.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "metered.hpp"
#include "texts.hpp"

// The same however the data are cut, with holes or zeros: a header may claim more than fits into
// memory.
inline std::uint64_t sum_of(std::uint64_t offset, nodestage::Bytes bytes) {
  std::uint64_t sum = 0;
  for (const std::byte byte : bytes) {
    const std::uint64_t mixed = ++offset * 0x9e3779b97f4a7c15U;
    sum += (mixed ^ (mixed >> 29U)) * static_cast<std::uint64_t>(byte);
  }
  return sum;
}

inline std::string line_of(nodestage::Entry& entry, nodestage::Entries& entries) {
  using Kind = nodestage::Entry::Kind;
  // What libarchive gives as a directory's data is a list that GNU tar keeps for itself.
  const bool is_directory = entry.kind == Kind::directory;
  std::uint64_t sum = 0;
  while (!is_directory) {
    auto block = entries.read();
    if (!block) return "fault: " + block.error().text();
    if (block->data.empty()) break;
    const auto bytes = block->data.bytes();
    if (block->offset + bytes.size() > entry.size) return "fault: beyond the size";
    sum += sum_of(block->offset, bytes);
  }
  const timespec time = entry.mtime.value_or(timespec{});
  const bool has_size = entry.kind == Kind::file || entry.kind == Kind::hard_link;
  return std::to_string(static_cast<int>(entry.kind)) + " " + entry.name + " " +
         std::to_string(entry.mode) + " " + std::to_string(time.tv_sec) + "." +
         std::to_string(time.tv_nsec) + " " + std::to_string(has_size ? entry.size : 0) + " " +
         entry.link + " " + std::to_string(sum);
}

using OpenEntries = std::function<nodestage::Result<std::unique_ptr<nodestage::Entries>>(
    nodestage::Source&, nodestage::Decoder&)>;

// All that a reader tells of an archive, a line for each entry; the last one is "end" or the fault.
inline std::vector<std::string> lines_of(const std::string& path, const OpenEntries& open) {
  Metered metered;
  auto source = must(nodestage::Source::open(path, metered.meter));
  auto decoder = must(nodestage::Decoder::open(source));
  auto opened = open(source, decoder);
  if (!opened) return {"fault: " + opened.error().text()};
  nodestage::Entries& entries = **opened;
  std::vector<std::string> lines;
  for (;;) {
    auto next = entries.next();
    lines.push_back(!next              ? "fault: " + next.error().text()
                    : *next == nullptr ? "end"
                                       : line_of(**next, entries));
    if (!next || *next == nullptr || lines.back().starts_with("fault: ")) return lines;
  }
}
