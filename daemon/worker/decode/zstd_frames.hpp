// Zstandard frames (RFC 8878) that are small and independent, as pzstd, zstd's seekable format, and
// `nodestage pack` write them, decoded by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Translates libzstd's error codes for a Codec's caller.

// `code` is what a function of libzstd returned, and a ZSTD_isError(). The fault is like a Codec's.
Error zstd_fault(std::size_t code);

// Takes a frame that decodes into at most `most_blocks` of the store's blocks, is no larger than
// two thirds of the store's input, and has a window of at most 8 MiB, which each thread needs.
std::unique_ptr<WholeFrames> make_zstd_frames(std::size_t most_blocks);

// The seek table of zstd's seekable format: a skippable frame at a file's end with the sizes of all
// frames before it. Every zstd skips it. All numbers are little-endian.
//
//   u32 0x184d2a5e | u32 size of what follows
//   for each frame: u32 compressed size | u32 content size | u32 checksum, if bit 7 is set below
//   u32 number of frames | u8 descriptor: bit 7 checksums, others 0 | u32 0x8f92eab1
//
// Golden test: tests/unit/test_zstd_seek_table.cpp.

struct FrameSizes {
  std::uint32_t compressed = 0;
  std::uint32_t content = 0;
};

// Without checksums.
std::string encode_seek_table(const std::vector<FrameSizes>& frames);

// The total content of all frames; empty if there is no table, or not one of this file.
Result<std::optional<std::uint64_t>> content_by_seek_table(const Source& source);

}  // namespace nodestage
