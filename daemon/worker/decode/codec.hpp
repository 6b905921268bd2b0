// Codec: one compressed format, decoded frame by frame. What is read from where, several frames in
// a file and cut-off files are the Decoder's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/result.hpp"
#include "daemon/worker/basis/bytes.hpp"

namespace nodestage {

enum class Coding { plain, gzip, bzip2, xz, zstd, lz4, compress };

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
  // `in` is empty only at the end of the file. A step that does nothing wants more input. A fault's
  // `what` is the cause alone ("gzip checksum"); its code is ENOMEM when the frame is perhaps good,
  // but needs too much memory.
  virtual Result<Step> decode(Bytes in, std::span<std::byte> out) = 0;
  // After a fault: about where in `in` it was met, and how much of `out` came before it.
  [[nodiscard]] const Step& before_fault() const { return before_fault_; }

 protected:
  Error failed(Error error, std::size_t consumed, std::size_t produced) {
    before_fault_ = {consumed, produced, false};
    return error;
  }

 private:
  Step before_fault_{};
};

// A frame that needs a larger window (zstd, xz: dictionary) is refused.
inline constexpr std::uint64_t k_max_window = std::uint64_t{128} << 20;

// For a codec that has threads of its own (xz): how many, and what memory they may take together.
// A codec without takes its window and less than 8 MiB.
struct CodecLimits {
  unsigned threads = 1;
  std::uint64_t memory = 0;
};

// Null for plain.
std::unique_ptr<Codec> make_codec(Coding coding, CodecLimits limits = {});

}  // namespace nodestage
