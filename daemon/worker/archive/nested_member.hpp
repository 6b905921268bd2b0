// The data of a member that is an archive itself, as its reader takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"

namespace nodestage {

inline constexpr std::size_t k_member_start = std::size_t{34} << 10;  // recognise_container()
// Of a pool for CompressedMember.
inline constexpr std::size_t k_decoded_block = std::size_t{256} << 10;
inline constexpr std::size_t k_decoded_blocks = k_decoder_blocks_held + 4;

// MemberBytes: the data of one member, as one run of bytes with zeros for its holes. As long as it
// keeps them, they can be read again from the start.
class MemberBytes {
 public:
  using Read = std::function<Result<Block>()>;
  MemberBytes(Read read, std::uint64_t size) : read_(std::move(read)), size_(size) {}

  // As they come. Holes are left out.
  Result<Block> block();
  // Empty at the end.
  Result<Slice> next();
  // Its first bytes, up to that many; then it is at the start again.
  Result<std::vector<std::byte>> start(std::size_t bytes);
  void rewind();
  [[nodiscard]] std::uint64_t size() const { return size_; }
  void keep_no_more() {
    keeps_ = false;
    kept_.clear();
  }
  Status drain() {
    for (;;) {
      TRY_ASSIGN(const Block block, this->block());
      if (block.data.empty()) return {};
    }
  }

 private:
  const Read read_;
  const std::uint64_t size_;
  std::deque<Block> again_;  // comes before what read_() returns
  std::deque<Block> kept_;
  std::size_t kept_bytes_ = 0;
  bool keeps_ = true;
  Block block_;  // its data come after a hole
  std::uint64_t at_ = 0;
  std::uint64_t holes_ = 0;
  bool has_ended_ = false;
};

// A member that is not compressed, in blocks of round sizes: its own, wherever they are.
class PlainMember final : public Decoding {
 public:
  explicit PlainMember(MemberBytes& bytes) : bytes_(bytes) {}  // borrowed

  Result<Slice> next() override;
  [[nodiscard]] std::uint64_t position() const override { return position_; }

 private:
  MemberBytes& bytes_;
  std::vector<std::byte> rest_;  // less than a round size
  std::uint64_t position_ = 0;
};

// A compressed one, which the thread that reads it decodes.
class CompressedMember final : public Decoding {
 public:
  // Borrows all.
  CompressedMember(MemberBytes& bytes, BufferPool& pool, const Decoder::Stream& about);

  // The beginning of what next() will return. Only before it.
  Result<Bytes> peek() {
    TRY_ASSIGN(first_, next());
    return first_.bytes();
  }
  Result<Slice> next() override;
  [[nodiscard]] std::uint64_t position() const override { return input_.offset(); }
  [[nodiscard]] std::optional<Junk> junk() const override { return reader_.junk(); }

 private:
  Result<Slice> decode();

  BufferPool& pool_;
  CompressedInput input_;
  const DecodeFaults faults_;
  FrameReader reader_;
  Slice first_;
};

// The same by several threads, which read the member, from its start on. Borrows all.
Result<std::unique_ptr<Decoding>> start_member_decoding(MemberBytes& bytes,
                                                        const Decoder::Stream& about,
                                                        const DecoderLimits& limits);

// Where the copies of members go. Borrowed.
struct NestedRoom {
  int dir_fd;
  Space& space;
};

// The copy of a member that has to seek, in a file without a name: if a worker is killed, nothing
// is left behind. One member after another uses it.
class MemberCopy {
 public:
  // Copies the member. `within` is asked before so many bytes more are written. Returns another
  // descriptor of the file.
  Result<Fd> take(MemberBytes& bytes, const NestedRoom& room,
                  const std::function<Status(std::uint64_t)>& within);
  // Gives its room back, when nothing is left to read.
  Status empty(Space& space);

 private:
  Fd fd_;
  std::uint64_t most_ = 0;  // bytes of disk that were taken for it
};

}  // namespace nodestage
