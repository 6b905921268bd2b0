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
