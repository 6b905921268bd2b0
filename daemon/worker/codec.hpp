// Codec: one compressed format, decoded frame by frame. What is read from where, several frames in
// a file and cut-off files are the Decoder's business.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

using Bytes = std::span<const std::byte>;

enum class Coding { plain, gzip, bzip2, xz, zstd, lz4 };

// "gz", "bz2", … as in a file's suffix; "" for plain.
std::string_view coding_suffix(Coding coding);
// The command that tests such a file: "gzip -t", …
std::string_view coding_test(Coding coding);

// Bytes that must be at hand for the two below (fewer: the file ends there).
inline constexpr std::size_t k_magic_bytes = 16;

// Told by the magic bytes at a file's start. A skippable frame belongs to zstd and lz4 alike; what
// follows it tells, when that is in `start`.
Coding recognise_coding(Bytes start);

// Whether another frame of `coding` (a gzip member, an xz stream) begins here.
bool begins_frame(Coding coding, Bytes start);

class Codec {
 public:
  struct Step {
    std::size_t consumed;
    std::size_t produced;
    bool frame_ended;  // whole and, where the format has one, its checksum verified
  };

  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;

  // Before each frame.
  virtual Status begin_frame() = 0;
  // A fault's `what` is the cause alone ("incorrect data check").
  virtual Result<Step> decode(Bytes in, std::span<std::byte> out) = 0;
};

// Null for plain.
std::unique_ptr<Codec> make_codec(Coding coding);

}  // namespace nodestage
