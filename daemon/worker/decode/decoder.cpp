#include "daemon/worker/decode/decoder.hpp"

#include <algorithm>
#include <bit>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/decode/bzip2_parts.hpp"
#include "daemon/worker/decode/codecs.hpp"
#include "daemon/worker/decode/gzip_parts.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_first_bytes = std::size_t{1} << 20;  // a multiple of 512
constexpr std::size_t k_peeked_bytes = std::size_t{64} << 10;
// A file whose decoded data begin after this many blocks is not recognized as an archive.
constexpr std::size_t k_most_first_blocks = 16;

constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr unsigned k_reads_in_flight = 8;
constexpr std::size_t k_input_blocks = 16;  // of a compressed file
constexpr std::size_t k_serial_depth = 6;   // blocks that one thread may be ahead
constexpr std::size_t k_spare_blocks = 4;   // being made, joined (bzip2), continued, and handed out
constexpr std::size_t k_gzip_blocks = 3;    // of a chunk
constexpr std::size_t k_gzip_bytes_of_mark = 64;  // compressed ones, on average: fewer are text
constexpr std::size_t k_gzip_thread = k_mib / 2;  // its decoder's tables and windows
constexpr std::size_t k_gzip_parts_more = 3;      // than threads: made, joined, and one to spare
constexpr std::size_t k_gzip_sample = k_mib / 8;
// From how many threads on, and up to which growth, chunks pay. They take a twelfth more processor
// time than ISA-L for data that hardly compress, and several times as much for text.
constexpr unsigned k_least_gzip_threads = 2;
constexpr double k_most_growth = 1.25;
constexpr std::size_t k_bzip2_part = 6 * k_mib;  // with its thread, block and compressed block

// Returns a power of two. Larger blocks exceed the processor's caches, and were slower.
std::size_t block_size(std::size_t wanted, std::size_t least = k_mib / 2) {
  return std::clamp(std::bit_floor(std::max<std::size_t>(wanted, 1)), least, k_mib);
}

class Plain final : public Decoding {
 public:
  explicit Plain(std::unique_ptr<InputBlocks> blocks) : blocks_(std::move(blocks)) {}

  Result<Slice> next() override {
    TRY_ASSIGN(Slice block, blocks_->next());
    position_ += block.size();
    return block;
  }
  [[nodiscard]] std::uint64_t position() const override { return position_; }

 private:
  const std::unique_ptr<InputBlocks> blocks_;
  std::uint64_t position_ = 0;
};

// The memory's shares. `rest` is for a coding's own decoders.
struct Shares {
  ReadAheadLimits ahead;
  std::size_t block_bytes;
  std::size_t rest;  // without the input, the consumer's blocks, and those on their way to it

  Shares(std::size_t memory, std::size_t least_block)
      : ahead{block_size(memory / 64), k_input_blocks, k_reads_in_flight},
        block_bytes(block_size(memory / 64, least_block)),
        rest(memory - std::min(memory, ahead.block_bytes * ahead.blocks + held() * block_bytes)) {}
  static std::size_t held() { return k_decoder_blocks_held + k_spare_blocks; }
  // At least a few, whatever the memory is.
  [[nodiscard]] std::size_t blocks_of_rest(std::size_t least) const {
    return std::max(rest / block_bytes, least);
  }
};

class Start {
 public:
  Start(DecoderInput input, Coding coding, const DecoderLimits& limits)
      : input_(std::move(input)),
        faults_(input_.path, input_.size, coding),
        coding_(coding),
        threads_(std::max(limits.threads, 1U)),
        gzip_chunk_(limits.gzip_chunk),
        memory_(std::max(limits.memory, 32 * k_mib)),
        // A bzip2 block has up to 900,000 bytes and should be decoded by one thread.
        shares_(memory_, coding == Coding::bzip2 ? k_mib : k_mib / 2) {}

  Result<std::unique_ptr<Decoding>> run() {
    if (coding_ == Coding::plain) return plain();
    if (coding_ == Coding::bzip2 && threads_ > 1) return bzip2();
    if (coding_ == Coding::gzip && may_be_in_chunks()) return gzip();
    const std::size_t blocks = k_serial_depth * shares_.block_bytes;
    auto codec = make_codec(coding_, {threads_, shares_.rest - std::min(shares_.rest, blocks)});
    const auto make_whole = codec_of(coding_).make_whole;
    if (make_whole == nullptr || threads_ == 1) return frames(std::move(codec), nullptr);
    return frames(std::move(codec), make_whole(shares_.blocks_of_rest(2 * k_serial_depth) / 2));
  }

 private:
  Result<std::unique_ptr<Decoding>> plain() {
    const std::size_t block = block_size(memory_ / 32);
    const std::size_t blocks = k_decoder_blocks_held + 5 + k_reads_in_flight;
    TRY_ASSIGN(auto from, this->blocks({block, blocks, k_reads_in_flight}));
    return std::unique_ptr<Decoding>(std::make_unique<Plain>(std::move(from)));
  }

  Result<std::unique_ptr<InputBlocks>> blocks(const ReadAheadLimits& limits) {
    auto made = input_.blocks(std::move(input_.first), limits);
    TRY(made->start());
    return made;
  }

  Result<std::unique_ptr<DecodeStore>> store(std::size_t blocks) {
    const ReadAheadLimits& ahead = shares_.ahead;
    TRY_ASSIGN(auto from, this->blocks(ahead));
    return std::make_unique<DecodeStore>(faults_, std::move(from), ahead.block_bytes * ahead.blocks,
                                         shares_.block_bytes, Shares::held() + blocks);
  }

  Result<std::unique_ptr<Decoding>> frames(std::unique_ptr<Codec> codec,
                                           std::unique_ptr<WholeFrames> whole) {
    const std::size_t blocks =
        whole != nullptr ? shares_.blocks_of_rest(2 * k_serial_depth) : k_serial_depth;
    TRY_ASSIGN(auto from, store(blocks));
    auto parts =
        std::make_unique<FrameParts>(std::move(from), coding_, std::move(codec), std::move(whole));
    if (!parts->begins_with_whole_frames())
      return PartDecoding::start(std::move(parts), 1, k_serial_depth);
    const std::size_t depth = std::min<std::size_t>(blocks, 2 * threads_ + 2);
    return PartDecoding::start(std::move(parts), threads_, depth);
  }

  [[nodiscard]] GzipSizes gzip_sizes() const {
    if (gzip_chunk_ > 0) return {gzip_chunk_, k_gzip_blocks};
    return {shares_.block_bytes, k_gzip_blocks, shares_.block_bytes / k_gzip_bytes_of_mark,
            k_most_growth};
  }

  // As many as the memory allows.
  [[nodiscard]] unsigned gzip_threads(const GzipSizes& sizes) const {
    const std::size_t marks = std::min(sizes.marks_of_chunk, sizes.chunk);
    const std::size_t part = sizes.chunk + sizes.beyond() + marks * sizeof(DeflateMarks::Run) +
                             sizes.blocks_of_chunk * shares_.block_bytes;
    const std::size_t more = std::min(shares_.rest, k_gzip_parts_more * part);
    const std::size_t most = (shares_.rest - more) / (part + k_gzip_thread);
    return static_cast<unsigned>(std::min<std::size_t>(threads_, most));
  }

  // One gzip stream, by several threads.
  [[nodiscard]] bool may_be_in_chunks() const {
    const bool is_test = gzip_chunk_ > 0;
    if (!Inflater::can_begin_between() || gzip_threads(gzip_sizes()) < k_least_gzip_threads ||
        input_.size < 4 * gzip_sizes().chunk)
      return false;
    return !has_whole_members() && (is_test || grows_little());
  }
  // Members of which the sizes are known need no search.
  [[nodiscard]] bool has_whole_members() const {
    CompressedInput input(0, input_.first);
    return codec_of(coding_).make_whole(1)->may_begin(input);
  }

  // By a sample. ISA-L may have taken a little that it has not decoded yet.
  [[nodiscard]] bool grows_little() const {
    CompressedInput input(0, input_.first);
    FrameReader reader(input, coding_, make_codec(coding_), faults_);
    std::vector<std::byte> room(k_gzip_sample);
    std::size_t decoded = 0;
    const auto is_over = [&] {
      return input.offset() >= k_gzip_sample || decoded >= 2 * k_gzip_sample;
    };
    for (std::size_t bytes = 1; bytes > 0 && !is_over(); decoded += bytes)
      bytes = reader.fill(room);
    return static_cast<double>(decoded) <= k_most_growth * static_cast<double>(input.offset());
  }

  Result<std::unique_ptr<Decoding>> gzip() {
    const GzipSizes sizes = gzip_sizes();
    const unsigned threads = gzip_threads(sizes);
    const std::size_t depth = threads + k_gzip_parts_more - 1;
    TRY_ASSIGN(auto from, store((depth + 1) * sizes.blocks_of_chunk));
    auto parts = std::make_unique<GzipParts>(std::move(from), sizes, depth + 2);
    return PartDecoding::start(std::move(parts), threads, depth);
  }

  Result<std::unique_ptr<Decoding>> bzip2() {
    const auto threads =
        static_cast<unsigned>(std::clamp<std::size_t>(shares_.rest / k_bzip2_part, 2, threads_));
    const std::size_t depth = threads + threads / 2 + 1;
    TRY_ASSIGN(auto from, store(depth));
    return PartDecoding::start(std::make_unique<Bzip2Parts>(std::move(from)), threads, depth);
  }

  DecoderInput input_;
  const DecodeFaults faults_;
  const Coding coding_;
  const unsigned threads_;
  const std::size_t gzip_chunk_;
  const std::size_t memory_;
  const Shares shares_;
};

}  // namespace

Result<Decoder> Decoder::open(Source& source, const DecoderLimits& limits) {
  Decoder decoder(source, limits);
  TRY_ASSIGN(const Slice start, decoder.read_first());
  decoder.coding_ = recognise_coding(start.bytes());
  return decoder;
}

// Empty at the end, and when enough was read.
Result<Slice> Decoder::read_first() {
  if (first_.size() >= k_most_first_blocks) return Slice();
  const std::uint64_t rest = source_->size() - std::min(source_->position(), source_->size());
  // More than the rest, so that growth of the file is noticed.
  const std::size_t bytes = std::min<std::uint64_t>(k_first_bytes, (rest / 512 + 1) * 512);
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  TRY_ASSIGN(const std::size_t count, source_->read({memory.get(), bytes}));
  const Slice block(memory, Bytes(memory.get(), count));
  if (count > 0) first_.push_back(block);
  return block;
}

Result<Bytes> Decoder::peek() {
  if (source_ == nullptr) return Bytes();
  if (coding_ != Coding::plain) return peek_decoded();
  return first_.empty() ? Bytes() : first_.front().bytes();
}

Result<Bytes> Decoder::peek_decoded() {
  CompressedInput input(0, [this, i = std::size_t{0}]() mutable {
    return i < first_.size() ? Result<Slice>(first_[i++]) : (++i, read_first());
  });
  const DecodeFaults texts = faults();
  FrameReader reader(input, coding_, make_codec(coding_), texts);
  peeked_.resize(k_peeked_bytes);
  const std::size_t bytes = reader.fill(peeked_);
  if (bytes == 0 && !reader.fault()) return reader.fault().error();
  return Bytes(peeked_).first(bytes);
}

Status Decoder::start() {
  TRY_ASSIGN(decoding_, start_decoding(DecoderInput::of(*source_, std::exchange(first_, {})),
                                       coding_, limits_));
  return {};
}

Result<Slice> Decoder::next() {
  TRY(meter_->check());
  if (!fault_) return fault_.error();
  if (decoding_ == nullptr) {
    fault_ = guarded([&] { return start(); });
    if (!fault_) return fault_.error();
  }
  auto block = decoding_->next();
  if (!block) fault_ = block.error();
  if (block && block->empty()) junk_ = decoding_->junk();
  return block;
}

Status Decoder::drain() {
  if (coding_ == Coding::plain) return {};
  for (;;) {
    TRY_ASSIGN(const Slice block, next());
    if (block.empty()) return {};
  }
}

Error Decoder::cut_off() const { return faults().cut_off(position()); }

Error Decoder::damaged(std::string_view cause) const {
  return faults().damaged_before(position(), cause);
}

Result<std::unique_ptr<Decoding>> PartDecoding::start(std::unique_ptr<PartMaker> maker,
                                                      unsigned threads, std::size_t depth) {
  std::unique_ptr<PartDecoding> decoding(new PartDecoding(std::move(maker), threads, depth));
  TRY(decoding->parts_.start(threads));
  return std::unique_ptr<Decoding>(std::move(decoding));
}

// The consumer, too, decodes some, and may find no memory for it.
Result<Slice> PartDecoding::next() {
  Result<Slice> slice = Slice();
  const Status done = guarded([&] { slice = next_slice(); });
  if (done) return slice;
  carried_bytes_ = 0;
  fault_ = done;
  return done.error();
}

Result<Slice> PartDecoding::next_slice() {
  while (fault_ && !has_ended_) {
    auto block = next_block();
    if (!block) {
      fault_ = block.error();
    } else if (!*block) {
      has_ended_ = true;
    } else if (Slice slice = rounded(std::move(**block)); !slice.empty()) {
      return slice;
    }
  }
  // Decoded data come first.
  if (carried_bytes_ > 0) return last();
  if (!fault_) return fault_.error();
  return Slice();
}

// Empty: the end.
Result<std::optional<Part::Block>> PartDecoding::next_block() {
  for (;;) {
    if (part_ == nullptr) {
      part_ = parts_.next();
      taken_ = 0;
      if (part_ == nullptr) return std::optional<Part::Block>();
      maker_->settle(*part_, parts_);
      position_ = std::max(position_, part_->position);
    }
    if (taken_ == part_->blocks.size() && part_->fault) {
      part_->blocks.clear();
      taken_ = 0;
      part_->go_on();
      position_ = std::max(position_, part_->position);
    }
    if (taken_ < part_->blocks.size()) return std::optional(std::move(part_->blocks[taken_++]));
    TRY(std::move(part_->fault));
    part_.reset();
  }
}

Slice PartDecoding::rounded(Part::Block block) {
  const std::span<std::byte> memory = block.buffer.memory;
  const std::size_t begin = k_headroom - carried_bytes_;
  std::copy_n(carried_.begin(), carried_bytes_,
              memory.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::size_t size = carried_bytes_ + block.size;
  const std::size_t whole = size / k_round * k_round;
  carried_bytes_ = size - whole;
  const auto rest = memory.subspan(begin + whole, carried_bytes_);
  std::copy(rest.begin(), rest.end(), carried_.begin());
  return {std::move(block.buffer.owner), Bytes(memory).subspan(begin, whole)};
}

Slice PartDecoding::last() {
  auto bytes = std::make_shared<std::vector<std::byte>>(
      carried_.begin(), carried_.begin() + static_cast<std::ptrdiff_t>(carried_bytes_));
  carried_bytes_ = 0;
  const Bytes view(*bytes);
  return {std::move(bytes), view};
}

DecoderInput DecoderInput::of(const Source& source, std::vector<Slice> first) {
  return {source.path(), source.size(), std::move(first),
          [&source](std::vector<Slice> read, const ReadAheadLimits& limits) {
            return std::make_unique<SourceBlocks>(source, std::move(read), limits);
          }};
}

Result<std::unique_ptr<Decoding>> start_decoding(DecoderInput input, Coding coding,
                                                 const DecoderLimits& limits) {
  return Start(std::move(input), coding, limits).run();
}

}  // namespace nodestage
