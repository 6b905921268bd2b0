// Chooses how a source is decoded, and how much memory each stage gets.
#pragma once

#include <array>
#include <optional>

#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/decode/frame_reader.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"

namespace nodestage {

// PartDecoding: the parts of OrderedParts as blocks of round sizes.
class PartDecoding final : public Decoding {
 public:
  // Depth as in OrderedParts. A fault: no thread could be started.
  static Result<std::unique_ptr<Decoding>> start(std::unique_ptr<PartMaker> maker, unsigned threads,
                                                 std::size_t depth);

  Result<Slice> next() override;
  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] unsigned threads() const override { return threads_; }
  [[nodiscard]] std::optional<std::uint64_t> junk_at() const override { return maker_->junk_at(); }

 private:
  PartDecoding(std::unique_ptr<PartMaker> maker, unsigned threads, std::size_t depth)
      : maker_(std::move(maker)), threads_(threads), parts_(*maker_, depth) {}
  Result<Slice> next_slice();
  Result<std::optional<Part::Block>> next_block();
  Slice rounded(Part::Block block);
  Slice last();

  static constexpr std::size_t k_round = 512;
  static_assert(k_round <= k_headroom);

  const std::unique_ptr<PartMaker> maker_;
  const unsigned threads_;
  OrderedParts parts_;
  std::unique_ptr<Part> part_;
  std::size_t taken_ = 0;  // of its blocks
  std::uint64_t position_ = 0;
  std::array<std::byte, k_round> carried_{};  // the end of the data, not a round size yet
  std::size_t carried_bytes_ = 0;
  Status fault_;
  bool has_ended_ = false;
};

// `first`: the source's blocks up to its position(). The source is borrowed. A fault: no thread
// could be started.
Result<std::unique_ptr<Decoding>> start_decoding(const Source& source, std::vector<Slice> first,
                                                 Coding coding, const DecoderLimits& limits);

}  // namespace nodestage
