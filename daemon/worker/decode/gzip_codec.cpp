#include "daemon/worker/decode/gzip_codec.hpp"

#include <algorithm>

#include "daemon/worker/decode/codecs.hpp"
#include "daemon/worker/decode/gzip_header.hpp"

namespace nodestage {
namespace {

class Gzip final : public GzipCodec {
 public:
  Status begin_frame() override {
    header_ = {};
    inflater_.begin(Inflater::Trailer::gzip);
    return {};
  }

  Status begin_between(const Inflater::Between& from, std::uint32_t size, std::byte byte,
                       Bytes window) override {
    header_.complete();
    return inflater_.begin_between(from, size, byte, window);
  }
  [[nodiscard]] std::optional<Inflater::Between> between() const override {
    return header_.is_complete() ? inflater_.between() : std::nullopt;
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    const auto used = header_.feed(in);
    if (!used) return failed(used.error(), 0, 0);
    if (!header_.is_complete()) return Step{*used, 0, false};
    in = in.subspan(*used);
    in = in.first(std::min(in.size(), k_most));
    out = out.first(std::min(out.size(), k_most));
    inflater_.give(in);
    inflater_.set_room(out);
    const Inflater::State state = inflater_.run();
    const std::size_t consumed = *used + in.size() - inflater_.input_left();
    const std::size_t produced = out.size() - inflater_.room_left();
    if (state != Inflater::State::open && state != Inflater::State::ended)
      return failed(inflate_fault(state), consumed, produced);
    return Step{consumed, produced, state == Inflater::State::ended};
  }

 private:
  static constexpr std::size_t k_most = std::size_t{1} << 30;
  GzipHeader header_;
  Inflater inflater_;
};

}  // namespace

std::unique_ptr<Codec> make_gzip_codec(CodecLimits) { return std::make_unique<Gzip>(); }

std::unique_ptr<GzipCodec> make_gzip_codec_between() { return std::make_unique<Gzip>(); }

Error inflate_fault(Inflater::State state) {
  return {0, state == Inflater::State::wrong_checksum ? "gzip checksum" : "gzip data"};
}

}  // namespace nodestage
