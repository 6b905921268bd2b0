#include "daemon/worker/decode/zstd_frames.hpp"

#include <zstd.h>

#include <algorithm>
#include <mutex>
#include <span>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_most_window = std::uint64_t{8} << 20;
constexpr std::uint64_t k_most_in_block = 128 * 1024;
constexpr std::uint64_t k_no_bound = std::uint64_t{1} << 60;
constexpr std::uint32_t k_frame_magic = 0xfd2fb528;
constexpr std::uint32_t k_skippable_magic = 0x184d2a50;  // the last 4 bits are free

struct Frame {
  std::uint64_t size = 0;   // including header and checksum
  std::uint64_t bound = 0;  // upper bound of its decoded size
};

// Looks at a frame without taking it. A fault of the input and its end read as zeros; is_whole()
// reports them.
class Look {
 public:
  Look(CompressedInput& input, std::uint64_t at, std::uint64_t end)
      : input_(input), at_(at), end_(end) {}

  std::uint64_t number(std::size_t bytes) {
    if (!reach(at_ + bytes)) return 0;
    std::array<std::byte, 8> raw{};
    input_.copy(at_, std::span(raw).first(bytes));
    at_ += bytes;
    return little_endian<std::uint64_t>(raw);
  }
  void skip(std::uint64_t bytes) {
    if (reach(at_ + bytes)) at_ += bytes;
  }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] std::uint64_t at() const { return at_; }

 private:
  bool reach(std::uint64_t to) {
    if (is_whole_ && to <= end_) {
      const auto held = input_.ensure(to);
      is_whole_ = held && *held >= to;
    } else {
      is_whole_ = false;
    }
    return is_whole_;
  }

  CompressedInput& input_;
  std::uint64_t at_;
  std::uint64_t end_;
  bool is_whole_ = true;
};

struct FrameHeader {
  std::uint64_t window = 0;
  std::optional<std::uint64_t> content;
  bool has_checksum = false;
};

FrameHeader header_in(Look& look) {
  const std::uint64_t descriptor = look.number(1);
  const bool is_single_segment = (descriptor & 0x20) != 0;
  const unsigned size_flag = static_cast<unsigned>(descriptor >> 6);
  FrameHeader header;
  header.has_checksum = (descriptor & 4) != 0;
  if (!is_single_segment) {
    const std::uint64_t window = look.number(1);
    const std::uint64_t base = std::uint64_t{1} << (10 + (window >> 3));
    header.window = base + base / 8 * (window & 7);
  }
  constexpr std::array<std::size_t, 4> k_id_sizes = {0, 1, 2, 4};
  look.skip(k_id_sizes[descriptor & 3]);
  if (size_flag > 0 || is_single_segment) {
    header.content = look.number(std::size_t{1} << size_flag);
    if (size_flag == 1) *header.content += 256;
  }
  if (is_single_segment) header.window = *header.content;
  return header;
}

// The size of the blocks' data, up to and including the last one. Empty: not separable, or too
// large.
std::optional<std::uint64_t> blocks_bound(Look& look, std::uint64_t most) {
  std::uint64_t bound = 0;
  for (;;) {
    const std::uint64_t block = look.number(3);
    const std::uint64_t type = block >> 1 & 3;
    const std::uint64_t size = block >> 3;
    if (!look.is_whole() || type == 3 || size > k_most_in_block) return std::nullopt;
    look.skip(type == 1 ? 1 : size);
    bound += type == 2 ? k_most_in_block : size;
    // Only the decoder knows a block's real size, so this bound is a generous one.
    if (bound > most + k_most_in_block) return std::nullopt;
    if ((block & 1) != 0) return bound;
  }
}

std::optional<Frame> frame_at(CompressedInput& input, std::uint64_t at, std::uint64_t end,
                              std::uint64_t most) {
  Look look(input, at, end);
  Frame frame;
  const auto magic = static_cast<std::uint32_t>(look.number(4));
  if ((magic & 0xfffffff0U) == k_skippable_magic) {
    look.skip(look.number(4));
  } else if (magic == k_frame_magic) {
    const FrameHeader header = header_in(look);
    if (header.window > k_most_window || header.content.value_or(0) > most) return std::nullopt;
    // If the frame announces its content's size, that is the bound, and more would be an error.
    const auto bound = blocks_bound(look, header.content ? k_no_bound : most);
    if (!bound) return std::nullopt;
    frame.bound = std::min(header.content.value_or(*bound), *bound);
    if (header.has_checksum) look.skip(4);
  } else {
    return std::nullopt;
  }
  if (!look.is_whole() || frame.bound > most) return std::nullopt;
  frame.size = look.at() - at;
  return frame;
}

// Decoders that wait for their next part.
class Contexts {
 public:
  Contexts() = default;
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  ~Contexts() {
    for (ZSTD_DCtx* context : free_) ZSTD_freeDCtx(context);
  }
  ZSTD_DCtx* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return ZSTD_createDCtx();
    ZSTD_DCtx* const context = free_.back();
    free_.pop_back();
    return context;
  }
  void give_back(ZSTD_DCtx* context) {
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    const std::lock_guard lock(mutex_);
    free_.push_back(context);
  }

 private:
  std::mutex mutex_;
  std::vector<ZSTD_DCtx*> free_;
};

class FramesPart final : public Part {
 public:
  FramesPart(std::uint64_t offset, std::vector<Slice> input, const DecodeFaults& faults,
             std::shared_ptr<Contexts> contexts)
      : offset_(offset),
        input_(std::move(input)),
        faults_(faults),
        contexts_(std::move(contexts)) {}

  void work() override {
    ZSTD_DCtx* const context = contexts_->take();
    fault = context != nullptr ? decode(context)
                               : faults_.of_codec(offset_, Error{ENOMEM, "no memory"});
    if (context != nullptr) contexts_->give_back(context);
    input_.clear();
    std::erase_if(blocks, [](const Block& block) { return block.size == 0; });
  }

 private:
  Status decode(ZSTD_DCtx* context) {
    std::size_t block = 0;
    std::uint64_t at = offset_;
    for (const Slice& slice : input_) {
      ZSTD_inBuffer in{slice.bytes().data(), slice.size(), 0};
      for (bool has_more = true; has_more;) {
        while (block < blocks.size() && blocks[block].size == blocks[block].room().size()) ++block;
        const std::size_t before = in.pos;
        ZSTD_outBuffer out{};
        if (block < blocks.size()) {
          const auto room = blocks[block].room();
          out = {room.data(), room.size(), blocks[block].size};
        }
        const std::size_t got = out.pos;
        const std::size_t left = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(left) != 0) return faults_.of_codec(at + in.pos, zstd_fault(left));
        if (block < blocks.size()) blocks[block].size = out.pos;
        const bool is_stuck = in.pos == before && out.pos == got && left != 0;
        if (is_stuck && in.pos < in.size)
          return faults_.damaged_at(at + in.pos, "zstd: more data than the frame announces");
        has_more = in.pos < in.size || (out.pos == out.size && left != 0 && !is_stuck);
        is_in_frame_ = left != 0;
      }
      at += slice.size();
    }
    if (is_in_frame_) return faults_.damaged_at(at, "zstd: more data than the frame announces");
    return {};
  }

  const std::uint64_t offset_;
  std::vector<Slice> input_;
  const DecodeFaults& faults_;
  const std::shared_ptr<Contexts> contexts_;
  bool is_in_frame_ = false;
};

class ZstdFrames final : public WholeFrames {
 public:
  explicit ZstdFrames(std::size_t most_blocks) : most_blocks_(most_blocks) {}

  // Finding that out takes a walk over its blocks.
  bool may_begin(CompressedInput&) override { return true; }

  std::unique_ptr<Part> take(DecodeStore& store) override {
    const std::uint64_t most_size = store.input_bytes / 3 * 2;
    const std::uint64_t most = most_blocks_ * store.block_bytes;
    Frame sum;
    // Small frames are put together.
    while (sum.bound < store.block_bytes && sum.size < store.block_bytes) {
      const std::uint64_t room = sum.bound == 0 ? most : store.block_bytes - sum.bound;
      const auto frame = frame_at(store.input, sum.size, most_size, room);
      if (!frame) break;
      sum = {sum.size + frame->size, sum.bound + frame->bound};
    }
    if (sum.size == 0) return nullptr;
    const std::uint64_t offset = store.input.offset();
    auto part =
        std::make_unique<FramesPart>(offset, store.input.take(sum.size), store.faults, contexts_);
    part->position = offset + sum.size;
    for (std::uint64_t room = 0; room < sum.bound && store.add_block(*part);)
      room += store.block_bytes;
    return part;
  }

 private:
  const std::size_t most_blocks_;
  const std::shared_ptr<Contexts> contexts_ = std::make_shared<Contexts>();
};

constexpr std::uint32_t k_table_frame_magic = 0x184d2a5e;
constexpr std::uint32_t k_table_magic = 0x8f92eab1;
constexpr std::uint64_t k_header = 8;
constexpr std::uint64_t k_footer = 9;
constexpr std::uint64_t k_most_frames = std::uint64_t{4} << 20;

}  // namespace

std::unique_ptr<WholeFrames> make_zstd_frames(std::size_t most_blocks) {
  return std::make_unique<ZstdFrames>(most_blocks);
}

std::string encode_seek_table(const std::vector<FrameSizes>& frames) {
  std::string text;
  put_little_endian(text, k_table_frame_magic);
  put_little_endian(text, static_cast<std::uint32_t>(frames.size() * 8 + k_footer));
  for (const FrameSizes& frame : frames) {
    put_little_endian(text, frame.compressed);
    put_little_endian(text, frame.content);
  }
  put_little_endian(text, static_cast<std::uint32_t>(frames.size()));
  text += '\0';
  put_little_endian(text, k_table_magic);
  return text;
}

Result<std::optional<std::uint64_t>> content_by_seek_table(const Source& source) {
  const std::optional<std::uint64_t> none;
  const std::uint64_t end = source.size();
  if (end < k_header + k_footer) return none;
  TRY_ASSIGN(const std::string footer, source.text_at(end - k_footer, k_footer));
  if (footer.size() < k_footer || little_endian(footer, 5) != k_table_magic) return none;
  const std::uint64_t frames = little_endian(footer);
  const std::uint64_t entry = (little_endian<std::uint8_t>(footer, 4) & 0x80) != 0 ? 12 : 8;
  const std::uint64_t size = k_header + frames * entry + k_footer;
  if (frames > k_most_frames || size > end) return none;
  TRY_ASSIGN(const std::string table, source.text_at(end - size, size - k_footer));
  if (table.size() < size - k_footer || little_endian(table) != k_table_frame_magic ||
      little_endian(table, 4) != size - k_header)
    return none;
  std::uint64_t compressed = size;
  std::uint64_t content = 0;
  for (std::uint64_t at = k_header; at < table.size(); at += entry) {
    compressed += little_endian(table, at);
    content += little_endian(table, at + 4);
  }
  return compressed == end ? std::optional(content) : none;
}

}  // namespace nodestage
