#include "daemon/worker/image/block_codec.hpp"

#include <lz4.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <climits>

#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {
namespace {

// An xz block's dictionary is not larger than the largest block.
constexpr std::uint64_t k_xz_memory = 64 << 20;

std::optional<std::size_t> unpack_xz(Bytes in, std::span<std::byte> out) {
  std::uint64_t memory = k_xz_memory;
  std::size_t used = 0;
  std::size_t made = 0;
  const lzma_ret code = ::lzma_stream_buffer_decode(
      &memory, 0, nullptr, reinterpret_cast<const std::uint8_t*>(in.data()), &used, in.size(),
      reinterpret_cast<std::uint8_t*>(out.data()), &made, out.size());
  if (code != LZMA_OK) return std::nullopt;
  return made;
}

std::optional<std::size_t> unpack_lz4(Bytes in, std::span<std::byte> out) {
  const int made = ::LZ4_decompress_safe(
      reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
      static_cast<int>(std::min<std::size_t>(in.size(), INT_MAX)),
      static_cast<int>(std::min<std::size_t>(out.size(), INT_MAX)));
  if (made < 0) return std::nullopt;
  return static_cast<std::size_t>(made);
}

// A zlib stream (RFC 1950): two bytes, of which one says that no dictionary is needed, then the
// data.
std::optional<std::size_t> unpack_zlib(Inflater& inflater, Bytes in, std::span<std::byte> out) {
  constexpr std::byte k_needs_dictionary{0x20};
  if (in.size() < 2 || (in[0] & std::byte{0xf}) != std::byte{8} ||
      (in[1] & k_needs_dictionary) != std::byte{0})
    return std::nullopt;
  inflater.begin(Inflater::Trailer::none);
  inflater.give(in.subspan(2));
  inflater.set_room(out);
  if (inflater.run_whole() != Inflater::State::ended) return std::nullopt;
  return out.size() - inflater.room_left();
}

// LZO1X, by the description of the format in Documentation/staging/lzo.rst of Linux. (The library
// is under the GPL.) A block is a row of instructions: each copies bytes that were made before,
// and then up to three literal ones, or a longer run of literal bytes alone.
class Lzo {
 public:
  Lzo(Bytes in, std::span<std::byte> out) : in_(in), out_(out) {}

  std::optional<std::size_t> unpack() {
    start();
    while (is_good_ && !is_over_) instruction();
    if (!is_good_ || at_ != in_.size()) return std::nullopt;
    return made_;
  }

 private:
  // After an instruction with 1 to 3 literal bytes, that number; after a run of them, k_run.
  static constexpr std::size_t k_run = 4;

  std::size_t next() {
    if (at_ < in_.size()) return std::to_integer<std::size_t>(in_[at_++]);
    is_good_ = false;
    return 0;
  }
  std::size_t next_two() {
    const std::size_t low = next();
    return low | next() << 8;
  }

  // A length whose bits in the instruction are 0 continues: 255 for each byte 0 that follows, then
  // another byte.
  std::size_t length(std::size_t bits, std::size_t largest) {
    if (bits != 0) return bits;
    std::size_t sum = largest;
    std::size_t byte = 0;
    while ((byte = next()) == 0 && is_good_) sum += 255;
    return sum + byte;
  }

  void literals(std::size_t count) {
    is_good_ = is_good_ && count <= in_.size() - at_ && count <= out_.size() - made_;
    if (!is_good_) return;
    std::ranges::copy(in_.subspan(at_, count), out_.subspan(made_).begin());
    at_ += count;
    made_ += count;
  }

  // The copy may overlap what it makes.
  void copy(std::size_t distance, std::size_t count, std::size_t literal) {
    is_good_ = is_good_ && distance <= made_ && count <= out_.size() - made_;
    if (!is_good_) return;
    for (const std::size_t end = made_ + count; made_ < end; ++made_)
      out_[made_] = out_[made_ - distance];
    literals(literal);
    state_ = literal;
  }

  void start() {
    if (in_.empty() || in_[0] <= std::byte{17}) return;
    const std::size_t count = next() - 17;
    literals(count);
    state_ = std::min(count, k_run);
  }

  void instruction() {
    const std::size_t code = next();
    if (code >= 64)
      copy((code >> 2 & 7) + (next() << 3) + 1, (code >> 5) + 1, code & 3);
    else if (code >= 16)
      far_copy(code);
    else if (state_ == 0)
      run(code);
    else if (state_ == k_run)
      copy((code >> 2) + (next() << 2) + 0x801, 3, code & 3);
    else
      copy((code >> 2) + (next() << 2) + 1, 2, code & 3);
  }

  void far_copy(std::size_t code) {
    const bool is_near = code >= 32;
    const std::size_t largest = is_near ? 31 : 7;
    const std::size_t count = length(code & largest, largest) + 2;
    const std::size_t two = next_two();
    std::size_t distance = two >> 2;
    if (is_near) return copy(distance + 1, count, two & 3);
    distance += (code & 8) << 11;
    is_over_ = distance == 0;
    if (!is_over_) copy(distance + 0x4000, count, two & 3);
  }

  void run(std::size_t code) {
    literals(length(code, 15) + 3);
    state_ = k_run;
  }

  Bytes in_;
  std::span<std::byte> out_;
  std::size_t at_ = 0;
  std::size_t made_ = 0;
  std::size_t state_ = 0;
  bool is_good_ = true;
  bool is_over_ = false;
};

}  // namespace

// What is made once and not for each block.
struct BlockCodec::Contexts {
  struct FreeZstd {
    void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
  };

  Inflater inflater;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd{::ZSTD_createDCtx()};

  Contexts() {
    if (!zstd) throw std::bad_alloc();
  }
};

BlockCodec::BlockCodec(BlockFormat format)
    : format_(format), contexts_(std::make_unique<Contexts>()) {}
BlockCodec::BlockCodec(BlockCodec&& other) noexcept = default;
BlockCodec& BlockCodec::operator=(BlockCodec&& other) noexcept = default;
BlockCodec::~BlockCodec() = default;

std::optional<std::size_t> BlockCodec::unpack(Bytes in, std::span<std::byte> out) {
  switch (format_) {
    case BlockFormat::gzip:
      return unpack_zlib(contexts_->inflater, in, out);
    case BlockFormat::lzo:
      return Lzo(in, out).unpack();
    case BlockFormat::xz:
      return unpack_xz(in, out);
    case BlockFormat::lz4:
      return unpack_lz4(in, out);
    case BlockFormat::zstd:
      const std::size_t made = ::ZSTD_decompressDCtx(contexts_->zstd.get(), out.data(), out.size(),
                                                     in.data(), in.size());
      if (::ZSTD_isError(made) != 0) return std::nullopt;
      return made;
  }
  return std::nullopt;
}

}  // namespace nodestage
