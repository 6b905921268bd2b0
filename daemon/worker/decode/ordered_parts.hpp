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
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/read/read_ahead.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// FrameReader: the frames of a compressed file (gzip members, xz streams, …), decoded one after
// another by one Codec, as one stream. Zero bytes between and after them are padding; other bytes
// after the last one are ignored.

// DecodeFaults: the faults of a source's content, as texts for its user.
// Offsets are positions in the source file, so among its compressed bytes. Any thread.
class DecodeFaults {
 public:
  DecodeFaults(const Source& source, Coding coding)
      : DecodeFaults(source.path(), source.size(), coding) {}
  DecodeFaults(std::string path, std::uint64_t size, Coding coding)
      : path_(std::move(path)), size_(size), coding_(coding) {}

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

// What follows the compressed data in a file and is ignored.
struct Junk {
  std::uint64_t at = 0;               // in the file, perhaps with zeros before it
  std::vector<std::byte> start = {};  // of it, up to 512 bytes: what was read already
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
  // At the end.
  [[nodiscard]] virtual std::optional<Junk> junk() const { return {}; }
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

  // At the end.
  [[nodiscard]] const std::optional<Junk>& junk() const { return junk_; }

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
  std::optional<Junk> junk_;
  std::uint64_t frame_bytes_ = 0;
};

// Skips zero bytes. Returns whether anything follows.
Result<bool> skip_zeros(CompressedInput& input);

class Part {
 public:
  using Block = DecodedBlock;

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

  // At the end.
  [[nodiscard]] virtual std::optional<Junk> junk() const = 0;
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
  // `most_input`: bytes of `from` that are in memory at once.
  DecodeStore(DecodeFaults texts, std::unique_ptr<InputBlocks> from, std::size_t most_input,
              std::size_t bytes, std::size_t count)
      : block_bytes(bytes),
        input_bytes(most_input),
        faults(std::move(texts)),
        blocks(std::move(from)),
        input(0, [this] { return blocks->next(); }),
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
    blocks->stop();
    pool.stop();
  }

  const std::size_t block_bytes;  // the room in a block
  const std::size_t input_bytes;  // of all the input's blocks together
  DecodeFaults faults;
  std::unique_ptr<InputBlocks> blocks;
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
  [[nodiscard]] std::optional<Junk> junk() const override { return reader_.junk(); }

 private:
  const std::unique_ptr<DecodeStore> store_;
  const std::unique_ptr<WholeFrames> whole_;
  FrameReader reader_;
  std::unique_ptr<Part> first_;  // made in advance
};

}  // namespace nodestage
