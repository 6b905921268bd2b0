// The codec of lzip(1), ".lz": members of LZMA data with a checksum.
//
//   header   "LZIP" | u8 version, 1 | u8 dictionary: bits 0-4 the power of two, bits 5-7 the
//            sixteenths of it to subtract
//   data     LZMA with lc=3 lp=0 pb=2 and an end marker
//   trailer  u32 CRC-32 of the data | u64 size of the data | u64 size of the member
#include <lzma.h>

#include <algorithm>
#include <array>

#include "daemon/worker/decode/codecs.hpp"
#include "daemon/worker/decode/xz_codec.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_lzip_header = 6;
constexpr std::size_t k_lzip_trailer = 20;

class Lzip final : public Codec {
 public:
  ~Lzip() override { lzma_end(&stream_); }

  Status begin_frame() override {
    place_ = Place::header;
    held_ = 0;
    crc_ = 0;
    data_bytes_ = member_bytes_ = 0;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    if (place_ == Place::data) return decode_data(in, out);
    const std::size_t whole = place_ == Place::header ? k_lzip_header : k_lzip_trailer;
    const std::size_t count = std::min(in.size(), whole - held_);
    std::copy_n(in.begin(), count, frame_.begin() + held_);
    held_ += count;
    member_bytes_ += count;
    if (held_ < whole) return Step{count, 0, false};
    held_ = 0;
    const bool is_end = place_ == Place::trailer;
    Status right = is_end ? check_trailer() : begin_data();
    if (!right) return failed(std::move(right.error()), count, 0);
    return Step{count, 0, is_end};
  }

 private:
  Status begin_data() {
    const auto coded = std::to_integer<unsigned>(frame_[5]);
    const std::uint64_t power = 1ULL << (coded & 31U);
    const std::uint64_t dictionary = power - power / 16 * (coded >> 5U);
    if (dictionary > k_max_window) return Error{ENOMEM, "its dictionary is too large"};
    lzma_options_lzma options{};
    lzma_lzma_preset(&options, LZMA_PRESET_DEFAULT);  // lc=3 lp=0 pb=2
    options.dict_size = static_cast<std::uint32_t>(std::max<std::uint64_t>(dictionary, 4096));
    const lzma_filter filters[] = {{LZMA_FILTER_LZMA1, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
    if (lzma_raw_decoder(&stream_, filters) != LZMA_OK) return Error{ENOMEM, "no memory"};
    place_ = Place::data;
    return {};
  }

  Result<Step> decode_data(Bytes in, std::span<std::byte> out) {
    const LzmaStep step = run_lzma(stream_, in, out);
    data_bytes_ += step.produced;
    member_bytes_ += step.consumed;
    crc_ = lzma_crc32(reinterpret_cast<const std::uint8_t*>(out.data()), step.produced, crc_);
    if (step.status == LZMA_STREAM_END) place_ = Place::trailer;
    if (!step.is_right())
      return failed(lzma_fault("lzip", step.status), step.consumed, step.produced);
    return Step{step.consumed, step.produced, false};
  }

  [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;)
      value = value << 8U | std::to_integer<std::uint64_t>(frame_[at + i]);
    return value;
  }

  [[nodiscard]] Status check_trailer() const {
    if (number(0, 4) != crc_) return Error{0, "lzip checksum"};
    if (number(4, 8) != data_bytes_ || number(12, 8) != member_bytes_)
      return Error{0, "lzip sizes"};
    return {};
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  enum class Place { header, data, trailer } place_ = Place::header;
  std::array<std::byte, k_lzip_trailer> frame_{};  // of the header or the trailer, as it comes
  std::size_t held_ = 0;                           // bytes in it
  std::uint32_t crc_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t member_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Codec> make_lzip_codec(CodecLimits) { return std::make_unique<Lzip>(); }

}  // namespace nodestage
