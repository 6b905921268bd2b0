#include <bzlib.h>

#include <algorithm>

#include "daemon/worker/decode/codecs.hpp"

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

}  // namespace nodestage
