// FrameParts: a file of compressed frames as parts. Frames that can be separated without decoding,
// and are small enough, are decoded by any thread. The maker decodes others one by one.
#pragma once

#include <memory>

#include "daemon/worker/decode/frame_reader.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/read/compressed_input.hpp"
#include "daemon/worker/read/source_blocks.hpp"

namespace nodestage {

// The input and output of decoding a compressed file; the parts and their makers borrow it.
struct DecodeStore {
  DecodeStore(const Source& source, std::vector<Slice> first, Coding coding,
              const ReadAheadLimits& ahead, std::size_t bytes, std::size_t count)
      : block_bytes(bytes),
        block_count(count),
        input_bytes(ahead.block_bytes * ahead.blocks),
        faults(source, coding),
        blocks(source, std::move(first), ahead),
        input(0, [this] { return blocks.next(); }),
        pool(k_headroom + bytes, count) {}
  // Adds the part's next block to fill. False: stopped.
  bool add_block(Part& part) {
    part.blocks.push_back({pool.take(), 0});
    if (part.blocks.back().buffer.owner != nullptr) return true;
    part.blocks.pop_back();
    part.fault = stopped();
    return false;
  }
  void stop() {
    blocks.stop();
    pool.stop();
  }

  const std::size_t block_bytes;  // the room in a block
  const std::size_t block_count;
  const std::size_t input_bytes;  // of all the input's blocks together
  DecodeFaults faults;
  SourceBlocks blocks;
  CompressedInput input;
  BufferPool pool;
};

// Frames that any thread can decode independently.
class WholeFrames {
 public:
  WholeFrames() = default;
  WholeFrames(const WholeFrames&) = delete;
  WholeFrames& operator=(const WholeFrames&) = delete;
  virtual ~WholeFrames() = default;

  // Whether a short look shows that there may be such a frame at the input's position.
  virtual bool may_begin(CompressedInput& input) = 0;
  // Takes the frame, and some that follow. Null: there is none, and nothing was taken. A fault of
  // the input is left for the next call that reads it.
  virtual std::unique_ptr<Part> take(DecodeStore& store) = 0;
};

class FrameParts final : public PartMaker {
 public:
  // `whole` is null if the format has none.
  FrameParts(std::unique_ptr<DecodeStore> store, Coding coding, std::unique_ptr<Codec> codec,
             std::unique_ptr<WholeFrames> whole);

  // Whether the file begins with frames for many threads. Only before the first make().
  bool begins_with_whole_frames();

  std::unique_ptr<Part> make() override;
  void stop() override { store_->stop(); }
  [[nodiscard]] std::optional<std::uint64_t> junk_at() const override { return reader_.junk_at(); }

 private:
  const std::unique_ptr<DecodeStore> store_;
  const std::unique_ptr<WholeFrames> whole_;
  FrameReader reader_;
  std::unique_ptr<Part> first_;  // made in advance
};

}  // namespace nodestage
