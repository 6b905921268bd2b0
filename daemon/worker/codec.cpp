#include "daemon/worker/codec.hpp"

#include <bzlib.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>

namespace nodestage {
namespace {

// Decoding must not take all of the worker's memory limit: xz -9 needs 65 MiB.
constexpr std::uint64_t k_xz_memory = 2ULL << 30;

template <typename Byte>
Byte* as(std::span<std::byte> bytes) {
  return reinterpret_cast<Byte*>(bytes.data());
}

// zlib and bzlib take a pointer to non-const input, and do not write to it.
template <typename Byte>
Byte* as(Bytes bytes) {
  return reinterpret_cast<Byte*>(const_cast<std::byte*>(bytes.data()));
}

unsigned limited(std::size_t size) {
  return static_cast<unsigned>(std::min<std::size_t>(size, 1U << 30));
}

class Gzip final : public Codec {
 public:
  ~Gzip() override { inflateEnd(&stream_); }

  Status begin_frame() override {
    inflateEnd(&stream_);
    stream_ = {};
    // 16: a gzip wrapper, whose CRC and length are then verified.
    return inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK ? Status() : Error{ENOMEM, "no memory"};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    const unsigned in_size = limited(in.size());
    const unsigned out_size = limited(out.size());
    stream_.next_in = as<Bytef>(in);
    stream_.avail_in = in_size;
    stream_.next_out = as<Bytef>(out);
    stream_.avail_out = out_size;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return Error{0, stream_.msg != nullptr ? stream_.msg : "invalid data"};
    }
    return Step{in_size - stream_.avail_in, out_size - stream_.avail_out, status == Z_STREAM_END};
  }

 private:
  z_stream stream_{};
};

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
    if (status == BZ_MEM_ERROR) return Error{ENOMEM, "no memory"};
    if (status != BZ_OK && status != BZ_STREAM_END) return Error{0, "incorrect data or checksum"};
    return Step{in_size - stream_.avail_in, out_size - stream_.avail_out, status == BZ_STREAM_END};
  }

 private:
  bz_stream stream_{};
};

class Xz final : public Codec {
 public:
  ~Xz() override { lzma_end(&stream_); }

  Status begin_frame() override {
    return lzma_stream_decoder(&stream_, k_xz_memory, 0) == LZMA_OK ? Status()
                                                                    : Error{ENOMEM, "no memory"};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    stream_.next_in = as<std::uint8_t>(in);
    stream_.avail_in = in.size();
    stream_.next_out = as<std::uint8_t>(out);
    stream_.avail_out = out.size();
    const lzma_ret status = lzma_code(&stream_, LZMA_RUN);
    if (status == LZMA_MEMLIMIT_ERROR) return Error{ENOMEM, "needs too much memory to decode"};
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR) {
      return Error{0, "incorrect data or checksum"};
    }
    return Step{in.size() - stream_.avail_in, out.size() - stream_.avail_out,
                status == LZMA_STREAM_END};
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Zstd final : public Codec {
 public:
  ~Zstd() override { ZSTD_freeDCtx(context_); }

  Status begin_frame() override {
    if (context_ == nullptr) context_ = ZSTD_createDCtx();
    if (context_ == nullptr) return Error{ENOMEM, "no memory"};
    ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax,
                           ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_, &to, &from);
    if (ZSTD_isError(left) != 0) return Error{0, ZSTD_getErrorName(left)};
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
    if (LZ4F_isError(left) != 0) return Error{0, LZ4F_getErrorName(left)};
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

bool is_bzip2(Bytes bytes) {
  using namespace std::string_view_literals;
  if (!starts_with(bytes, "BZh") || bytes.size() < 10) return false;
  const auto level = std::to_integer<char>(bytes[3]);
  return level >= '1' && level <= '9' &&
         (starts_with(bytes.subspan(4), "1AY&SY"sv) ||
          starts_with(bytes.subspan(4), "\x17rE8P\x90"sv));  // a block; the end of an empty stream
}

}  // namespace

std::string_view coding_suffix(Coding coding) {
  constexpr std::string_view k_names[] = {"", "gz", "bz2", "xz", "zst", "lz4"};
  return k_names[static_cast<unsigned>(coding)];
}

std::string_view coding_test(Coding coding) {
  constexpr std::string_view k_tests[] = {"cksum", "gzip -t", "bzip2 -t",
                                          "xz -t", "zstd -t", "lz4 -t"};
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
  for (const Coding coding : {Coding::gzip, Coding::bzip2, Coding::xz, Coding::zstd, Coding::lz4}) {
    if (begins_frame(coding, frame)) return coding;
  }
  return Coding::plain;
}

std::unique_ptr<Codec> make_codec(Coding coding) {
  switch (coding) {
    case Coding::plain:
      return nullptr;
    case Coding::gzip:
      return std::make_unique<Gzip>();
    case Coding::bzip2:
      return std::make_unique<Bzip2>();
    case Coding::xz:
      return std::make_unique<Xz>();
    case Coding::zstd:
      return std::make_unique<Zstd>();
    case Coding::lz4:
      return std::make_unique<Lz4>();
  }
  return nullptr;
}

}  // namespace nodestage
