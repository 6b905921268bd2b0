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

}  // namespace

std::unique_ptr<Codec> make_lz4_codec(CodecLimits) { return std::make_unique<Lz4>(); }

std::string lz4_version() { return LZ4_versionString(); }

}  // namespace nodestage
