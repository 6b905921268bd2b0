// OrderedParts: a decoded stream, made part by part, several at a time, and returned in order.
//
//   PartMaker (one thread at a time) → Part::work() (all threads) → next() (the consumer)
//
// The maker does what depends on earlier data: it finds where the next part begins or, if a format
// is one long chain, decodes all of it. work() does the rest.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/decode/frame_reader.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/read/read_ahead.hpp"

namespace nodestage {

// Bytes before a block's data that its consumer may fill, to make blocks of round sizes.
inline constexpr std::size_t k_headroom = 512;

class Part {
 public:
  struct Block {
    BufferPool::Buffer buffer;
    std::size_t size = 0;  // of the data
    [[nodiscard]] std::span<std::byte> room() const { return buffer.memory.subspan(k_headroom); }
  };

  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part() = default;

  // Fills `blocks`, for which the maker has taken all buffers, so that earlier parts never wait for
  // buffers of later ones. On a fault, sets `fault`; the blocks then have the good data before it.
  virtual void work() {}

  // Called by the consumer when it has taken all blocks: adds blocks with what did not fit, and
  // sets `position` if they reach beyond it. None: there is no more.
  virtual void go_on() {}

  std::vector<Block> blocks;
  std::uint64_t position = 0;  // in the file, after the part
  Status fault;                // after the blocks; nothing follows it
};

class OrderedParts;

class PartMaker {
 public:
  PartMaker() = default;
  PartMaker(const PartMaker&) = delete;
  PartMaker& operator=(const PartMaker&) = delete;
  virtual ~PartMaker() = default;

  // The next part; null at the end. It may already contain a fault. One thread at a time.
  virtual std::unique_ptr<Part> make() = 0;

  // Called by the consumer for each worked part, in order: does what needs the part's neighbors.
  virtual void settle(Part& /*part*/, OrderedParts& /*behind*/) {}

  // From any thread: a call that waits in make() returns stopped().
  virtual void stop() = 0;

  // At the end: as Decoder::junk_at().
  [[nodiscard]] virtual std::optional<std::uint64_t> junk_at() const = 0;
};

// Not movable. One thread calls next() and destroys this.
class OrderedParts {
 public:
  // At most `depth` parts wait or are being worked at a time. The maker is borrowed.
  OrderedParts(PartMaker& maker, std::size_t depth) : maker_(maker), depth_(depth) {}
  OrderedParts(const OrderedParts&) = delete;
  OrderedParts& operator=(const OrderedParts&) = delete;
  ~OrderedParts();

  Status start(unsigned threads) {
    return threads_.start(threads, [this] { work(); });
  }

  // Null at the end, and after a part with a fault.
  std::unique_ptr<Part> next();

 private:
  struct Slot {
    std::unique_ptr<Part> part;
    bool is_worked = false;
  };
  void work();
  std::shared_ptr<Slot> make();
  std::shared_ptr<Slot> made_slot();
  void set_worked(Slot& slot);

  PartMaker& maker_;
  const std::size_t depth_;
  std::mutex making_;  // guards the maker

  std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  std::condition_variable worked_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_over_ = false;  // the maker has made the last part, or no more are wanted
  // In place of the part that could not be made: there is no memory to be had then.
  std::unique_ptr<Part> failed_ = std::make_unique<Part>();

  ThreadGroup threads_;
};

// FrameParts: a file of compressed frames as parts. Frames that can be separated without decoding,
// and are small enough, are decoded by any thread. The maker decodes others one by one.

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
