#include "daemon/worker/decode/deflate64_codec.hpp"

#include <algorithm>

#include "daemon/worker/decode/deflate_blocks.hpp"

namespace nodestage {
namespace {

class Deflate64Codec final : public Codec {
 public:
  Status begin_frame() override {
    blocks_.begin();
    state_ = State::block;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    Bytes left = in;
    std::size_t produced = 0;
    for (;;) {
      const Bytes bytes = blocks_.fresh();
      const std::size_t count = std::min(bytes.size(), out.size() - produced);
      std::copy_n(bytes.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(produced));
      blocks_.drop(count);
      produced += count;
      const bool is_over = state_ == State::end || state_ == State::damaged;
      if (!blocks_.fresh().empty() || is_over || (state_ == State::input && left.empty())) break;
      if (produced == out.size() && state_ == State::room) break;
      state_ = blocks_.run(left);
    }
    const bool is_taken = blocks_.fresh().empty();
    const Step step{in.size() - left.size(), produced, is_taken && state_ == State::end};
    if (is_taken && state_ == State::damaged)
      return failed({0, "Deflate64 data"}, step.consumed, step.produced);
    return step;
  }

 private:
  using Blocks = DeflateBlocks<Deflate64>;
  using State = Blocks::State;
  Blocks blocks_;
  State state_ = State::block;
};

}  // namespace

std::unique_ptr<Codec> make_deflate64_codec() { return std::make_unique<Deflate64Codec>(); }

}  // namespace nodestage
