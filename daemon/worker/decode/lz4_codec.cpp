#include <lz4.h>
#include <lz4frame.h>

#include "daemon/worker/decode/codecs.hpp"

namespace nodestage {
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

}  // namespace nodestage
