// Codec: one compressed format, decoded frame by frame. Where input comes from, files with several
// frames, and cut-off files are the Decoder's concern.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/text/archive_names.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

class CompressedInput;

// The number of bytes to pass to the two functions below (fewer: the file ends there).
inline constexpr std::size_t k_magic_bytes = 16;

// Recognizes the coding by the magic bytes at a file's start. Both zstd and lz4 have skippable
// frames; what follows such a frame decides, if it is in `start`.
Coding recognise_coding(Bytes start);

// Whether `start` is the start of another frame of `coding` (a gzip member, an xz stream).
bool begins_frame(Coding coding, Bytes start);
// How many bytes are enough to say so, at most k_magic_bytes.
std::size_t magic_bytes_of(Coding coding);

class Codec {
 public:
  struct Step {
    std::size_t consumed;
    std::size_t produced;
    bool frame_ended;  // completely; its checksum, if the format has one, was verified
  };

  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;

  // For a codec that takes its input by itself, and so consumes nothing of `in`. Borrowed.
  virtual void read_from(CompressedInput&) {}
  // Call it before each frame.
  virtual Status begin_frame() = 0;
  // `in` is empty only at the end of the file. A step that consumes and produces nothing needs more
  // input. A fault's `what` is the cause alone ("gzip checksum"); its code is ENOMEM if the frame
  // may be good but needs too much memory, k_needs_dictionary if it names one.
  virtual Result<Step> decode(Bytes in, std::span<std::byte> out) = 0;
  // After a fault: roughly where in `in` it occurred, and how much of `out` came before it.
  [[nodiscard]] const Step& before_fault() const { return before_fault_; }

 protected:
  Error failed(Error error, std::size_t consumed, std::size_t produced) {
    before_fault_ = {consumed, produced, false};
    return error;
  }

 private:
  Step before_fault_{};
};

inline constexpr int k_needs_dictionary = EBADSLT;

// A frame that needs a larger window (zstd; xz: dictionary) is refused.
inline constexpr std::uint64_t k_max_window = std::uint64_t{128} << 20;

// For a codec with threads of its own (xz): their number, and the memory that they may take
// together. Any other codec takes its window and less than 8 MiB.
struct CodecLimits {
  unsigned threads = 1;
  std::uint64_t memory = 0;
};

// Null for plain.
std::unique_ptr<Codec> make_codec(Coding coding, CodecLimits limits = {});

// The codec of Deflate64, method 9 of a zip, which Windows uses for files larger than 2 GiB.
//
// Deflate (RFC 1951) with a window of 64 KiB, length code 285 that means 3 and 16 more bits, and
// the distance codes 30 (32,769) and 31 (49,153) with 14 more bits each. There is no standard: the
// differences come from descriptions by authors of other readers, and from what 7-Zip writes. A
// frame is all data of a member. It has no checksum.
std::unique_ptr<Codec> make_deflate64_codec();

// The libraries that decode, each with its version, for people.
std::vector<std::pair<std::string, std::string>> codec_libraries();

}  // namespace nodestage
