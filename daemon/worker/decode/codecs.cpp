#include "daemon/worker/decode/codecs.hpp"

#include <bzlib.h>
#include <lz4.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/worker/gzip/deflate_blocks.hpp"

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

}  // namespace

std::unique_ptr<Codec> make_bzip2_codec(CodecLimits) { return std::make_unique<Bzip2>(); }

bool begins_bzip2(Bytes bytes) {
  if (bytes.size() < 10) return false;
  const auto level = std::to_integer<char>(bytes[3]);
  return level >= '1' && level <= '9' &&
         (starts_with(bytes.subspan(4), "1AY&SY") ||
          starts_with(bytes.subspan(4), "\x17rE8P\x90"));  // a block; the end of an empty stream
}

std::string bzip2_version() { return BZ2_bzlibVersion(); }

namespace {

class Lz4 final : public Codec {
 public:
  ~Lz4() override { LZ4F_freeDecompressionContext(context_); }

  Status begin_frame() override {
    if (context_ == nullptr &&
        LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0) {
      return Error{ENOMEM, "no memory"};
    }
    LZ4F_resetDecompressionContext(context_);
    is_at_start_ = true;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    if (is_at_start_ && names_dictionary(in))
      return failed({k_needs_dictionary, "its dictionary is missing"}, 0, 0);
    std::size_t consumed = in.size();
    std::size_t produced = out.size();
    const std::size_t left =
        LZ4F_decompress(context_, out.data(), &produced, in.data(), &consumed, nullptr);
    if (LZ4F_isError(left) != 0) {
      // lz4(1) does not write that there is one.
      const char* or_else = is_at_start_ ? ", or made with a dictionary, lz4 -D" : "";
      return failed({0, "lz4: " + std::string(LZ4F_getErrorName(left)) + or_else}, consumed, 0);
    }
    is_at_start_ = is_at_start_ && produced == 0;
    return Step{consumed, produced, left == 0};
  }

 private:
  // The flags of a frame, behind its magic, say whether it names a dictionary.
  static bool names_dictionary(Bytes frame) {
    return frame.size() > 4 && frame[0] == std::byte{0x04} &&
           (frame[4] & std::byte{1}) != std::byte{0};
  }

  LZ4F_dctx* context_ = nullptr;
  bool is_at_start_ = false;  // nothing of the frame is decoded
};

}  // namespace

std::unique_ptr<Codec> make_lz4_codec(CodecLimits) { return std::make_unique<Lz4>(); }

std::string lz4_version() { return LZ4_versionString(); }

namespace {

// What a decoder with a dictionary of k_max_window takes in addition to it.
constexpr std::uint64_t k_beside_window = 4ULL << 20;

// One call of a decoder of liblzma.
struct LzmaStep {
  std::size_t consumed;
  std::size_t produced;
  lzma_ret status;

  [[nodiscard]] bool is_right() const {
    return status == LZMA_OK || status == LZMA_STREAM_END || status == LZMA_BUF_ERROR;
  }
};

LzmaStep run_lzma(lzma_stream& stream, Bytes in, std::span<std::byte> out) {
  stream.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
  stream.avail_in = in.size();
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = out.size();
  const lzma_ret status = lzma_code(&stream, in.empty() ? LZMA_FINISH : LZMA_RUN);
  return {in.size() - stream.avail_in, out.size() - stream.avail_out, status};
}

// The cause of a wrong status.
Error lzma_fault(std::string_view coding, lzma_ret status) {
  switch (status) {
    case LZMA_MEM_ERROR:
      return {ENOMEM, "no memory"};
    case LZMA_MEMLIMIT_ERROR:
      return {ENOMEM, "its dictionary is too large"};
    case LZMA_OPTIONS_ERROR:
      return {0, std::string(coding) + ": an unknown option"};
    default:
      return {0, std::string(coding) + " data or checksum"};
  }
}

// What the codecs of both formats do alike.
class LzmaCodec : public Codec {
 public:
  explicit LzmaCodec(std::string_view coding) : coding_(coding) {}
  ~LzmaCodec() override { lzma_end(&stream_); }

  Status begin_frame() override {
    return initialize(stream_) == LZMA_OK ? Status() : Error{ENOMEM, "no memory"};
  }

  // The first call without progress may be part of the decoder's work; the second one is an error.
  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    TRY_ASSIGN(Step step, code(in, out));
    if (step.consumed == 0 && step.produced == 0 && !step.frame_ended) return code(in, out);
    return step;
  }

 private:
  virtual lzma_ret initialize(lzma_stream& stream) = 0;

  Result<Step> code(Bytes in, std::span<std::byte> out) {
    const LzmaStep step = run_lzma(stream_, in, out);
    if (!step.is_right())
      return failed(lzma_fault(coding_, step.status), step.consumed, step.produced);
    return Step{step.consumed, step.produced, step.status == LZMA_STREAM_END};
  }

  const std::string_view coding_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Xz final : public LzmaCodec {
 public:
  explicit Xz(CodecLimits limits) : LzmaCodec("xz"), limits_(limits) {}

 private:
  lzma_ret initialize(lzma_stream& stream) override {
#if LZMA_VERSION >= UINT32_C(50040000)  // 5.4.0
    lzma_mt options{};
    options.threads = limits_.threads;
    options.memlimit_threading = limits_.memory;
    options.memlimit_stop = k_max_window + k_beside_window;
    if (limits_.threads > 1 && limits_.memory > 0) {
      // The limit of all threads may be above that of one.
      if (options.memlimit_stop < limits_.memory) options.memlimit_stop = limits_.memory;
      return lzma_stream_decoder_mt(&stream, &options);
    }
#endif
    return lzma_stream_decoder(&stream, k_max_window + k_beside_window, 0);
  }

  const CodecLimits limits_;
};

class Lzma final : public LzmaCodec {
 public:
  Lzma() : LzmaCodec("lzma") {}

 private:
  lzma_ret initialize(lzma_stream& stream) override {
    return lzma_alone_decoder(&stream, k_max_window + k_beside_window);
  }
};

}  // namespace

std::unique_ptr<Codec> make_xz_codec(CodecLimits limits) { return std::make_unique<Xz>(limits); }

std::unique_ptr<Codec> make_lzma_codec(CodecLimits) { return std::make_unique<Lzma>(); }

// .lzma has no magic. What xz(1) looks at is looked at here: settings, a dictionary of 2^n or 2^n +
// 2^(n-1) bytes, and a size that is unknown or less than 256 GiB. The coded data begin with a 0.
bool begins_lzma(Bytes bytes) {
  if (bytes.size() < k_magic_bytes || std::to_integer<unsigned>(bytes[0]) >= 225) return false;
  const std::uint32_t dictionary = little_endian(bytes, 1);
  const int ones = std::popcount(dictionary);
  const bool is_usual = ones == 1 || (ones == 2 && (dictionary & dictionary << 1U) != 0);
  if (dictionary < 4096 || !is_usual) return false;
  const std::uint64_t high = little_endian(bytes, 9);
  const std::uint64_t size = high << 32U | little_endian(bytes, 5);
  return (size == ~std::uint64_t{0} || size < std::uint64_t{1} << 38U) && bytes[13] == std::byte{0};
}

std::string lzma_version() { return lzma_version_string(); }

namespace {

class Zstd final : public Codec {
 public:
  ~Zstd() override { ZSTD_freeDCtx(context_); }

  Status begin_frame() override {
    if (context_ == nullptr) context_ = ZSTD_createDCtx();
    if (context_ == nullptr) return Error{ENOMEM, "no memory"};
    ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, std::bit_width(k_max_window) - 1);
    is_at_start_ = true;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_, &to, &from);
    if (ZSTD_isError(left) != 0) {
      Error fault = zstd_fault(left);
      // Not every dictionary has a number that the frame names.
      if (is_at_start_ && ZSTD_getErrorCode(left) == ZSTD_error_corruption_detected)
        fault.what += ", or made with a dictionary, zstd -D";
      return failed(std::move(fault), from.pos, to.pos);
    }
    is_at_start_ = is_at_start_ && to.pos == 0;
    return Step{from.pos, to.pos, left == 0};
  }

 private:
  ZSTD_DCtx* context_ = nullptr;
  bool is_at_start_ = false;  // nothing of the frame is decoded
};

}  // namespace

std::unique_ptr<Codec> make_zstd_codec(CodecLimits) { return std::make_unique<Zstd>(); }

std::string zstd_version() { return ZSTD_versionString(); }

Error zstd_fault(std::size_t code) {
  if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
    return {ENOMEM, "its window is too large"};
  if (ZSTD_getErrorCode(code) == ZSTD_error_dictionary_wrong)
    return {k_needs_dictionary, "its dictionary is missing"};
  if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) return {ENOMEM, "no memory"};
  return {0, std::string("zstd: ") + ZSTD_getErrorName(code)};
}

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

bool starts_with(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(), [](char a, std::byte b) {
           return static_cast<unsigned char>(a) == std::to_integer<unsigned char>(b);
         });
}

bool is_skippable(Bytes bytes) {
  return bytes.size() >= 8 && (little_endian(bytes) & 0xfffffff0U) == 0x184d2a50U;
}

bool begins_frame(Coding coding, Bytes start) {
  const CodecRow& row = codec_of(coding);
  if (row.may_be_skipped && is_skippable(start)) return true;
  return row.make != nullptr && starts_with(start, row_of(coding).magic) &&
         (row.begins == nullptr || row.begins(start));
}

std::size_t magic_bytes_of(Coding coding) {
  const CodecRow& row = codec_of(coding);
  const bool is_magic_all = row.begins == nullptr && !row.may_be_skipped;
  return is_magic_all ? row_of(coding).magic.size() : k_magic_bytes;
}

Coding recognise_coding(Bytes start) {
  Bytes frame = start;
  while (is_skippable(frame)) {
    const std::uint64_t skip = 8ULL + little_endian(frame, 4);
    if (skip >= frame.size()) break;
    frame = frame.subspan(skip);
  }
  const auto* const found =
      std::find_if(std::begin(k_codings), std::end(k_codings),
                   [frame](const CodingRow& row) { return begins_frame(row.coding, frame); });
  return found == std::end(k_codings) ? Coding::plain : found->coding;
}

std::unique_ptr<Codec> make_codec(Coding coding, CodecLimits limits) {
  const CodecRow& row = codec_of(coding);
  return row.make == nullptr ? nullptr : row.make(limits);
}

std::vector<std::pair<std::string, std::string>> codec_libraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  for (const CodecRow& row : k_codecs) {
    const std::string name(row_of(row.coding).library);
    const auto is_it = [&name](const auto& library) { return library.first == name; };
    if (!name.empty() && std::none_of(libraries.begin(), libraries.end(), is_it))
      libraries.emplace_back(name, row.version());
  }
  return libraries;
}

}  // namespace nodestage
