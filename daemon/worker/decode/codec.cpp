#include "daemon/worker/decode/codec.hpp"

#include <bzlib.h>
#include <lz4frame.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>

#include "daemon/worker/decode/compress_codec.hpp"
#include "daemon/worker/decode/gzip_codec.hpp"
#include "daemon/worker/decode/lzip_codec.hpp"
#include "daemon/worker/decode/xz_codec.hpp"
#include "daemon/worker/decode/zstd_fault.hpp"

namespace nodestage {
namespace {

template <typename Byte>
Byte* as(std::span<std::byte> bytes) {
  return reinterpret_cast<Byte*>(bytes.data());
}

// bzlib takes a pointer to non-const input but does not write to it.
template <typename Byte>
Byte* as(Bytes bytes) {
  return reinterpret_cast<Byte*>(const_cast<std::byte*>(bytes.data()));
}

unsigned limited(std::size_t size) {
  return static_cast<unsigned>(std::min<std::size_t>(size, 1U << 30));
}

class Bzip2 final : public Codec {
 public:
  ~Bzip2() override { BZ2_bzDecompressEnd(&stream_); }

  Status begin_frame() override {
    BZ2_bzDecompressEnd(&stream_);
    stream_ = {};
    return BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK ? Status() : Error{ENOMEM, "no memory"};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    const unsigned in_size = limited(in.size());
    const unsigned out_size = limited(out.size());
    stream_.next_in = as<char>(in);
    stream_.avail_in = in_size;
    stream_.next_out = as<char>(out);
    stream_.avail_out = out_size;
    const int status = BZ2_bzDecompress(&stream_);
    const unsigned consumed = in_size - stream_.avail_in;
    if (status == BZ_MEM_ERROR) return failed({ENOMEM, "no memory"}, consumed, 0);
    if (status != BZ_OK && status != BZ_STREAM_END)
      return failed({0, "bzip2 data or checksum"}, consumed, out_size - stream_.avail_out);
    return Step{consumed, out_size - stream_.avail_out, status == BZ_STREAM_END};
  }

 private:
  bz_stream stream_{};
};

class Zstd final : public Codec {
 public:
  ~Zstd() override { ZSTD_freeDCtx(context_); }

  Status begin_frame() override {
    if (context_ == nullptr) context_ = ZSTD_createDCtx();
    if (context_ == nullptr) return Error{ENOMEM, "no memory"};
    ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, std::bit_width(k_max_window) - 1);
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_, &to, &from);
    if (ZSTD_isError(left) != 0) return failed(zstd_fault(left), from.pos, to.pos);
    return Step{from.pos, to.pos, left == 0};
  }

 private:
  ZSTD_DCtx* context_ = nullptr;
};

class Lz4 final : public Codec {
 public:
  ~Lz4() override { LZ4F_freeDecompressionContext(context_); }

  Status begin_frame() override {
    if (context_ == nullptr &&
        LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0) {
      return Error{ENOMEM, "no memory"};
    }
    LZ4F_resetDecompressionContext(context_);
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    std::size_t consumed = in.size();
    std::size_t produced = out.size();
    const std::size_t left =
        LZ4F_decompress(context_, out.data(), &produced, in.data(), &consumed, nullptr);
    if (LZ4F_isError(left) != 0)
      return failed({0, "lz4: " + std::string(LZ4F_getErrorName(left))}, consumed, 0);
    return Step{consumed, produced, left == 0};
  }

 private:
  LZ4F_dctx* context_ = nullptr;
};

bool starts_with(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(), [](char a, std::byte b) {
           return static_cast<unsigned char>(a) == std::to_integer<unsigned char>(b);
         });
}

std::uint32_t little_endian(Bytes bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

bool is_skippable(Bytes bytes) {
  return bytes.size() >= 8 && (little_endian(bytes) & 0xfffffff0U) == 0x184d2a50U;
}

bool is_compress(Bytes bytes) {
  if (!starts_with(bytes, "\x1f\x9d") || bytes.size() < 3) return false;
  const auto settings = std::to_integer<unsigned>(bytes[2]);
  return (settings & 0x60U) == 0 && (settings & 31U) >= 9 && (settings & 31U) <= 16;
}

// .lzma has no magic. What xz(1) looks at is looked at here: settings, a dictionary of 2^n or 2^n +
// 2^(n-1) bytes, and a size that is unknown or less than 256 GiB. The coded data begin with a 0.
bool is_lzma(Bytes bytes) {
  if (bytes.size() < k_magic_bytes || std::to_integer<unsigned>(bytes[0]) >= 225) return false;
  const std::uint32_t dictionary = little_endian(bytes.subspan(1));
  const int ones = std::popcount(dictionary);
  const bool is_usual = ones == 1 || (ones == 2 && (dictionary & dictionary << 1U) != 0);
  if (dictionary < 4096 || !is_usual) return false;
  const std::uint64_t high = little_endian(bytes.subspan(9));
  const std::uint64_t size = high << 32U | little_endian(bytes.subspan(5));
  return (size == ~std::uint64_t{0} || size < std::uint64_t{1} << 38U) && bytes[13] == std::byte{0};
}

bool is_bzip2(Bytes bytes) {
  using namespace std::string_view_literals;
  if (!starts_with(bytes, "BZh") || bytes.size() < 10) return false;
  const auto level = std::to_integer<char>(bytes[3]);
  return level >= '1' && level <= '9' &&
         (starts_with(bytes.subspan(4), "1AY&SY"sv) ||
          starts_with(bytes.subspan(4), "\x17rE8P\x90"sv));  // a block; the end of an empty stream
}

}  // namespace

Error zstd_fault(std::size_t code) {
  if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
    return {ENOMEM, "its window is too large"};
  if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) return {ENOMEM, "no memory"};
  return {0, std::string("zstd: ") + ZSTD_getErrorName(code)};
}

std::string_view coding_suffix(Coding coding) {
  constexpr std::string_view k_names[] = {"", "gz", "bz2", "xz", "zst", "lz4", "Z", "lzma", "lz"};
  return k_names[static_cast<unsigned>(coding)];
}

std::string_view coding_test(Coding coding) {
  constexpr std::string_view k_tests[] = {"cksum",  "gzip -t", "bzip2 -t", "xz -t",  "zstd -t",
                                          "lz4 -t", "gzip -t", "xz -t",    "lzip -t"};
  return k_tests[static_cast<unsigned>(coding)];
}

bool begins_frame(Coding coding, Bytes start) {
  using namespace std::string_view_literals;
  switch (coding) {
    case Coding::plain:
      return false;
    case Coding::gzip:
      return starts_with(start, "\x1f\x8b\x08");
    case Coding::bzip2:
      return is_bzip2(start);
    case Coding::xz:
      return starts_with(start,
                         "\xfd"
                         "7zXZ\0"sv);
    case Coding::zstd:
      return starts_with(start, "\x28\xb5\x2f\xfd") || is_skippable(start);
    case Coding::lz4:
      return starts_with(start, "\x04\x22\x4d\x18") || is_skippable(start);
    case Coding::compress:
      return is_compress(start);
    case Coding::lzma:
      return is_lzma(start);
    case Coding::lzip:
      return starts_with(start, "LZIP\1");
  }
  return false;
}

Coding recognise_coding(Bytes start) {
  Bytes frame = start;
  while (is_skippable(frame)) {
    const std::uint64_t skip = 8ULL + little_endian(frame.subspan(4));
    if (skip >= frame.size()) break;
    frame = frame.subspan(skip);
  }
  for (const Coding coding : {Coding::gzip, Coding::bzip2, Coding::xz, Coding::zstd, Coding::lz4,
                              Coding::compress, Coding::lzip, Coding::lzma}) {
    if (begins_frame(coding, frame)) return coding;
  }
  return Coding::plain;
}

std::unique_ptr<Codec> make_codec(Coding coding, CodecLimits limits) {
  switch (coding) {
    case Coding::plain:
      return nullptr;
    case Coding::gzip:
      return make_gzip_codec();
    case Coding::bzip2:
      return std::make_unique<Bzip2>();
    case Coding::xz:
      return make_xz_codec(limits);
    case Coding::zstd:
      return std::make_unique<Zstd>();
    case Coding::lz4:
      return std::make_unique<Lz4>();
    case Coding::compress:
      return make_compress_codec();
    case Coding::lzma:
      return make_lzma_codec();
    case Coding::lzip:
      return make_lzip_codec();
  }
  return nullptr;
}

}  // namespace nodestage
