// The codec of compress(1), ".Z": LZW with codes of 9 to 16 bits.
//
// clang-format off
//   file   1f 9d | u8: bits 0-4 the widest code, bit 7: code 256 resets the table | codes
//   codes  from the lowest bit on, in groups of eight with the same width; the rest of a group is
//          unused when the width changes or the table is reset
// clang-format on
//
// There is no standard. This follows descriptions of the format and what compress(1) and others
// write. It has neither an end marker nor a checksum: the file's end is the end.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "daemon/worker/decode/codecs.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_header_bytes = 3;
constexpr unsigned k_least_width = 9;
constexpr unsigned k_most_width = 16;
constexpr std::uint32_t k_literals = 256;
constexpr std::uint32_t k_clear = 256;

class Compress final : public Codec {
 public:
  Status begin_frame() override {
    header_size_ = 0;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    is_end_ = in.empty();
    std::size_t consumed = take_header(in);
    if (header_size_ < k_header_bytes) {
      if (is_end_) return failed({0, "a truncated header"}, consumed, 0);
      return Step{consumed, 0, false};
    }
    std::size_t produced = 0;
    for (;;) {
      produced += give(out.subspan(produced));
      if (!pending_.empty()) return Step{consumed, produced, false};
      widen();
      if (!has_code()) {
        consumed += fill_group(in.subspan(consumed));
        const bool is_whole = group_size_ == width_;
        if (!is_whole && !is_end_) return Step{consumed, produced, false};
        if (!has_code()) return Step{consumed, produced, true};
      }
      if (!take(next_code())) return failed({0, "compress data"}, consumed, produced);
    }
  }

 private:
  std::size_t take_header(Bytes in) {
    std::size_t consumed = 0;
    while (header_size_ < k_header_bytes && consumed < in.size())
      header_[header_size_++] = std::to_integer<std::uint8_t>(in[consumed++]);
    if (consumed > 0 && header_size_ == k_header_bytes) begin();
    return consumed;
  }

  void begin() {
    most_width_ = std::clamp<unsigned>(header_[2] & 31U, k_least_width, k_most_width);
    clears_ = (header_[2] & 128U) != 0;
    pending_.clear();
    forget();
  }

  void forget() {
    known_ = k_literals + (clears_ ? 1 : 0);
    last_.reset();
    set_width(k_least_width);
  }

  void set_width(unsigned width) {
    width_ = width;
    group_size_ = code_ = 0;
  }

  void widen() {
    if (known_ > (1U << width_) - 1 && width_ < most_width_) set_width(width_ + 1);
  }

  // Whether the group is complete, or the file's last one: its unused rest must have been read.
  [[nodiscard]] bool has_code() const {
    return (group_size_ == width_ || is_end_) && (code_ + 1) * width_ <= group_size_ * 8;
  }

  std::size_t fill_group(Bytes in) {
    if (group_size_ == width_) group_size_ = code_ = 0;
    const std::size_t count = std::min<std::size_t>(width_ - group_size_, in.size());
    for (std::size_t i = 0; i < count; ++i)
      group_[group_size_++] = std::to_integer<std::uint8_t>(in[i]);
    return count;
  }

  std::uint32_t next_code() {
    const std::size_t bit = code_++ * width_;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t at = bit / 8 + i;
      if (at < group_size_) bits |= std::uint32_t{group_[at]} << 8 * i;
    }
    return bits >> bit % 8 & ((1U << width_) - 1);
  }

  // Puts what the code means into pending_, backwards. False: it means nothing.
  bool take(std::uint32_t code) {
    if (clears_ && code == k_clear) {
      forget();
      return true;
    }
    if (code >= known_ + (last_ && known_ < 1U << most_width_ ? 1 : 0)) return false;
    if (!last_ && code >= k_literals) return false;
    std::uint32_t from = code;
    if (code == known_) {  // the one being defined: the last text and its own first byte
      pending_.push_back(first_);
      from = *last_;
    }
    for (; from >= k_literals; from = prefix_[from]) pending_.push_back(suffix_[from]);
    first_ = static_cast<std::uint8_t>(from);
    pending_.push_back(first_);
    if (last_ && known_ < 1U << most_width_) {
      prefix_[known_] = static_cast<std::uint16_t>(*last_);
      suffix_[known_++] = first_;
    }
    last_ = code;
    return true;
  }

  std::size_t give(std::span<std::byte> out) {
    const std::size_t count = std::min(out.size(), pending_.size());
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = std::byte{pending_.back()};
      pending_.pop_back();
    }
    return count;
  }

  std::array<std::uint8_t, k_header_bytes> header_{};
  std::size_t header_size_ = 0;
  unsigned most_width_ = k_most_width;
  bool clears_ = true;
  unsigned width_ = k_least_width;
  std::array<std::uint8_t, k_most_width> group_{};  // eight codes: as many bytes as a code has bits
  std::size_t group_size_ = 0;
  std::size_t code_ = 0;               // the next one of the group
  bool is_end_ = false;                // of the file
  std::uint32_t known_ = k_literals;   // number of codes that mean something
  std::optional<std::uint32_t> last_;  // code; empty at first and after the table was reset
  std::uint8_t first_ = 0;             // the first byte of what that code meant
  std::vector<std::uint16_t> prefix_ = std::vector<std::uint16_t>(1U << k_most_width);
  std::vector<std::uint8_t> suffix_ = std::vector<std::uint8_t>(1U << k_most_width);
  std::vector<std::uint8_t> pending_;
};

}  // namespace

std::unique_ptr<Codec> make_compress_codec(CodecLimits) { return std::make_unique<Compress>(); }

bool begins_compress(Bytes bytes) {
  if (bytes.size() < 3) return false;
  const auto settings = std::to_integer<unsigned>(bytes[2]);
  return (settings & 0x60U) == 0 && (settings & 31U) >= 9 && (settings & 31U) <= 16;
}

}  // namespace nodestage
