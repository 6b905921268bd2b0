#include <lzma.h>

#include <bit>
#include <string>

#include "daemon/worker/decode/codecs.hpp"

namespace nodestage {
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

}  // namespace nodestage
