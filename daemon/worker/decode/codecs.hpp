// The decoders: one row for each coding of common/text/archive_names.hpp.
#pragma once

#include <memory>
#include <string>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/gzip_codec.hpp"
#include "daemon/worker/decode/zstd_frames.hpp"
#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {

struct CodecRow {
  Coding coding;
  std::unique_ptr<Codec> (*make)(CodecLimits) = nullptr;
  std::string (*version)() = nullptr;  // of the library, if there is one
  // Looks at more than the magic, which is there. It may look at k_magic_bytes.
  bool (*begins)(Bytes start) = nullptr;
  bool may_be_skipped = false;  // has skippable frames, those of zstd and lz4
  // Frames that any thread can decode, of at most so many blocks.
  std::unique_ptr<WholeFrames> (*make_whole)(std::size_t most_blocks) = nullptr;
};

std::unique_ptr<Codec> make_gzip_codec(CodecLimits);
std::unique_ptr<Codec> make_bzip2_codec(CodecLimits);
std::unique_ptr<Codec> make_xz_codec(CodecLimits limits);
std::unique_ptr<Codec> make_zstd_codec(CodecLimits);
std::unique_ptr<Codec> make_lz4_codec(CodecLimits);
std::unique_ptr<Codec> make_compress_codec(CodecLimits);
std::unique_ptr<Codec> make_lzma_codec(CodecLimits);
std::unique_ptr<Codec> make_lzip_codec(CodecLimits);

bool begins_bzip2(Bytes bytes);
bool begins_compress(Bytes bytes);
bool begins_lzma(Bytes bytes);

std::string bzip2_version();
std::string lzma_version();
std::string zstd_version();
std::string lz4_version();

// In the order of Coding.
inline constexpr CodecRow k_codecs[] = {
    {Coding::plain},
    {Coding::gzip, make_gzip_codec, isal_text, nullptr, false, make_whole_members},
    {Coding::bzip2, make_bzip2_codec, bzip2_version, begins_bzip2},
    {Coding::xz, make_xz_codec, lzma_version},
    {Coding::zstd, make_zstd_codec, zstd_version, nullptr, true, make_zstd_frames},
    {Coding::lz4, make_lz4_codec, lz4_version, nullptr, true},
    {Coding::compress, make_compress_codec, nullptr, begins_compress},
    {Coding::lzma, make_lzma_codec, lzma_version, begins_lzma},
    {Coding::lzip, make_lzip_codec},
};

constexpr const CodecRow& codec_of(Coding coding) {
  return k_codecs[static_cast<std::size_t>(coding)];
}

// Whether each coding has its decoder, and each library its version.
constexpr bool has_all_codecs() {
  if (std::size(k_codecs) != std::size(k_codings) || !is_in_order(k_codecs, &CodecRow::coding))
    return false;
  for (const CodecRow& row : k_codecs) {
    if ((row.make == nullptr) != (row.coding == Coding::plain)) return false;
    if ((row.version == nullptr) != row_of(row.coding).library.empty()) return false;
  }
  return true;
}
static_assert(has_all_codecs());

// For codecs that look at bytes.
bool starts_with(Bytes bytes, std::string_view magic);

}  // namespace nodestage
