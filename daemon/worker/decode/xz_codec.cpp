#include "daemon/worker/decode/xz_codec.hpp"

#include <lzma.h>

namespace nodestage {
namespace {

// What a decoder with a dictionary of k_max_window takes in addition to it.
constexpr std::uint64_t k_beside_window = 4ULL << 20;

Error fault_of(lzma_ret status) {
  switch (status) {
    case LZMA_MEM_ERROR:
      return {ENOMEM, "no memory"};
    case LZMA_MEMLIMIT_ERROR:
      return {ENOMEM, "its dictionary is too large"};
    case LZMA_OPTIONS_ERROR:
      return {0, "xz: an unknown option"};
    default:
      return {0, "xz data or checksum"};
  }
}

class Xz final : public Codec {
 public:
  explicit Xz(CodecLimits limits) : limits_(limits) {}
  ~Xz() override { lzma_end(&stream_); }

  Status begin_frame() override {
    if (initialize() == LZMA_OK) return {};
    return Error{ENOMEM, "no memory"};
  }

  // The first call without progress may be part of the decoder's work; the second one is an error.
  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    TRY_ASSIGN(Step step, code(in, out));
    if (step.consumed == 0 && step.produced == 0 && !step.frame_ended) return code(in, out);
    return step;
  }

 private:
  lzma_ret initialize() {
#if LZMA_VERSION >= UINT32_C(50040000)  // 5.4.0
    lzma_mt options{};
    options.threads = limits_.threads;
    options.memlimit_threading = limits_.memory;
    options.memlimit_stop = k_max_window + k_beside_window;
    if (limits_.threads > 1 && limits_.memory > 0) {
      // The limit of all threads may be above that of one.
      if (options.memlimit_stop < limits_.memory) options.memlimit_stop = limits_.memory;
      return lzma_stream_decoder_mt(&stream_, &options);
    }
#endif
    return lzma_stream_decoder(&stream_, k_max_window + k_beside_window, 0);
  }

  Result<Step> code(Bytes in, std::span<std::byte> out) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret status = lzma_code(&stream_, in.empty() ? LZMA_FINISH : LZMA_RUN);
    const std::size_t consumed = in.size() - stream_.avail_in;
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
      return failed(fault_of(status), consumed, out.size() - stream_.avail_out);
    return Step{consumed, out.size() - stream_.avail_out, status == LZMA_STREAM_END};
  }

  const CodecLimits limits_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<Codec> make_xz_codec(CodecLimits limits) { return std::make_unique<Xz>(limits); }

}  // namespace nodestage
