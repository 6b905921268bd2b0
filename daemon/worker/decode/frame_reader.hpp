// FrameReader: the frames of a compressed file (gzip members, xz streams, …), decoded one after
// another by one Codec, as one stream. Zero bytes between and after them are padding; other bytes
// after the last one are ignored.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/decode_faults.hpp"
#include "daemon/worker/read/compressed_input.hpp"

namespace nodestage {

// One thread. Everything but the codec is borrowed.
class FrameReader {
 public:
  FrameReader(CompressedInput& input, Coding coding, std::unique_ptr<Codec> codec,
              const DecodeFaults& faults)
      : input_(input), coding_(coding), codec_(std::move(codec)), faults_(faults) {
    codec_->read_from(input_);
  }

  // Between frames: whether another one follows. If so, the input is at its start.
  Result<bool> find_frame();
  [[nodiscard]] bool is_in_frame() const { return place_ == Place::in_frame; }

  // Fills `out` with decoded bytes of this frame and those that follow. At the start of each later
  // frame, `leave` may return true to stop before it. Returns fewer bytes than `out` has in that
  // case, at the end, and before a fault, which fault() returns.
  std::size_t fill(std::span<std::byte> out, const std::function<bool()>& leave = {});
  // The same without input: what the codec still holds of what it was given.
  std::size_t flush(std::span<std::byte> out);
  [[nodiscard]] const Status& fault() const { return fault_; }
  // After a fault of the input that was no real one: fill() goes on where it was.
  void resume() { fault_ = {}; }
  // Goes on within a frame, at which the caller has set the codec and the input, and of which so
  // many bytes were decoded before.
  void enter_frame(std::uint64_t decoded) {
    resume();
    place_ = Place::in_frame;
    frame_bytes_ = decoded;
  }
  // How many bytes of the frame were decoded. A codec may count less.
  [[nodiscard]] std::uint64_t frame_bytes() const { return frame_bytes_; }
  [[nodiscard]] bool is_at_end() const { return place_ == Place::at_end; }

  // At the end: where what was ignored begins in the file.
  [[nodiscard]] std::optional<std::uint64_t> junk_at() const { return junk_at_; }

 private:
  std::size_t step(std::span<std::byte> out);
  Result<Codec::Step> decode(Bytes in, std::span<std::byte> out);
  std::size_t failed(Error error, std::size_t produced = 0) {
    fault_ = std::move(error);
    return produced;
  }
  Status begin_frame();

  CompressedInput& input_;
  const Coding coding_;
  const std::unique_ptr<Codec> codec_;
  const DecodeFaults& faults_;
  enum class Place { between_frames, in_frame, at_end } place_ = Place::between_frames;
  Status fault_;
  std::optional<std::uint64_t> junk_at_;
  std::uint64_t frame_bytes_ = 0;
};

// Skips zero bytes. Returns whether anything follows.
Result<bool> skip_zeros(CompressedInput& input);

}  // namespace nodestage
