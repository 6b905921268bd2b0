#include <zstd.h>
#include <zstd_errors.h>

#include <bit>
#include <utility>

#include "daemon/worker/decode/codecs.hpp"
#include "daemon/worker/decode/zstd_fault.hpp"

namespace nodestage {
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

}  // namespace nodestage
