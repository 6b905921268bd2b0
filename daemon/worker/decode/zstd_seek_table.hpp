// The seek table of zstd's seekable format: a skippable frame at a file's end with the sizes of all
// frames before it. Every zstd skips it. All numbers are little-endian.
//
//   u32 0x184d2a5e | u32 size of what follows
//   for each frame: u32 compressed size | u32 content size | u32 checksum, if bit 7 is set below
//   u32 number of frames | u8 descriptor: bit 7 checksums, others 0 | u32 0x8f92eab1
//
// Golden test: tests/unit/test_zstd_seek_table.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

struct FrameSizes {
  std::uint32_t compressed = 0;
  std::uint32_t content = 0;
};

// Without checksums.
std::string encode_seek_table(const std::vector<FrameSizes>& frames);

// The total content of all frames; empty if there is no table, or not one of this file.
Result<std::optional<std::uint64_t>> content_by_seek_table(const Source& source);

}  // namespace nodestage
