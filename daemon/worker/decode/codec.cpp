#include "daemon/worker/decode/codec.hpp"

#include <algorithm>

#include "daemon/worker/decode/codecs.hpp"

namespace nodestage {

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
