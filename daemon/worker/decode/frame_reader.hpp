// FrameReader: the frames of a compressed file (gzip members, xz streams, …), decoded one after
// another by one Codec, as one stream. Zero bytes between and after them are padding; other bytes
// after the last one are ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// DecodeFaults: the faults of a source's content, as texts for its user.
// Offsets are positions in the source file, so among its compressed bytes. Any thread.
class DecodeFaults {
 public:
  DecodeFaults(const Source& source, Coding coding)
      : path_(source.path()), size_(source.size()), coding_(coding) {}

  // The file ends at `offset`, which is too early.
  [[nodiscard]] Error cut_off(std::uint64_t offset) const;
  // Wrong bytes at about `offset`, according to their coding.
  [[nodiscard]] Error damaged_at(std::uint64_t offset, std::string_view cause) const;
  // Wrong content, noticed when everything before `offset` was decoded.
  [[nodiscard]] Error damaged_before(std::uint64_t offset, std::string_view cause) const;
  // A Codec's fault. stopped() is returned unchanged.
  [[nodiscard]] Error of_codec(std::uint64_t offset, const Error& error) const;

 private:
  [[nodiscard]] Error damaged(const std::string& where, std::string_view cause) const;
  [[nodiscard]] std::string byte(std::uint64_t offset) const;
  [[nodiscard]] std::string how_to_test() const;

  std::string path_;
  std::uint64_t size_;
  Coding coding_;
};

// Decoding: one way to turn a source's bytes into decoded blocks; the Decoder chooses which.
// Used by one thread. The destructor joins its threads.
class Decoding {
 public:
  Decoding() = default;
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;
  virtual ~Decoding() = default;

  // As Decoder::next().
  virtual Result<Slice> next() = 0;
  // The position in the file before which everything lies that was returned.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  [[nodiscard]] virtual unsigned threads() const { return 1; }
  // At the end: as Decoder::junk_at().
  [[nodiscard]] virtual std::optional<std::uint64_t> junk_at() const = 0;
};

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
