// The codec of gzip members (RFC 1952): an Inflater decodes; headers are parsed here.
#pragma once

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/inflater.hpp"

namespace nodestage {

// A member may also be decoded from the start of any of its blocks.
class GzipCodec : public Codec {
 public:
  // Instead of begin_frame(); as Inflater::begin_between().
  virtual Status begin_between(const Inflater::Between& from, std::uint32_t size, std::byte byte,
                               Bytes window) = 0;
  [[nodiscard]] virtual std::optional<Inflater::Between> between() const = 0;
};

std::unique_ptr<GzipCodec> make_gzip_codec_between();

// The Codec's fault for a State that is one.
Error inflate_fault(Inflater::State state);

}  // namespace nodestage
