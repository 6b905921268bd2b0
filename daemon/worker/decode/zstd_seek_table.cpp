#include "daemon/worker/decode/zstd_seek_table.hpp"

#include <span>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::uint32_t k_table_frame_magic = 0x184d2a5e;
constexpr std::uint32_t k_table_magic = 0x8f92eab1;
constexpr std::uint64_t k_header = 8;
constexpr std::uint64_t k_footer = 9;
constexpr std::uint64_t k_most_frames = std::uint64_t{4} << 20;

// Empty if not all of it exists.
Result<std::vector<std::byte>> bytes_at(const Source& source, std::uint64_t at,
                                        std::uint64_t size) {
  std::vector<std::byte> data(size);
  TRY_ASSIGN(const std::size_t count, source.read_at(at, data));
  if (count < size) data.clear();
  return data;
}

}  // namespace

std::string encode_seek_table(const std::vector<FrameSizes>& frames) {
  std::string text;
  put_little_endian(text, k_table_frame_magic);
  put_little_endian(text, static_cast<std::uint32_t>(frames.size() * 8 + k_footer));
  for (const FrameSizes& frame : frames) {
    put_little_endian(text, frame.compressed);
    put_little_endian(text, frame.content);
  }
  put_little_endian(text, static_cast<std::uint32_t>(frames.size()));
  text += '\0';
  put_little_endian(text, k_table_magic);
  return text;
}

Result<std::optional<std::uint64_t>> content_by_seek_table(const Source& source) {
  const std::optional<std::uint64_t> none;
  const std::uint64_t end = source.size();
  if (end < k_header + k_footer) return none;
  TRY_ASSIGN(const auto footer, bytes_at(source, end - k_footer, k_footer));
  if (footer.empty() || little_endian(footer, 5) != k_table_magic) return none;
  const std::uint64_t frames = little_endian(footer);
  const std::uint64_t entry = (std::to_integer<unsigned>(footer[4]) & 0x80) != 0 ? 12 : 8;
  const std::uint64_t size = k_header + frames * entry + k_footer;
  if (frames > k_most_frames || size > end) return none;
  TRY_ASSIGN(const auto table, bytes_at(source, end - size, size - k_footer));
  if (table.empty() || little_endian(table) != k_table_frame_magic ||
      little_endian(table, 4) != size - k_header)
    return none;
  std::uint64_t compressed = size;
  std::uint64_t content = 0;
  for (std::uint64_t at = k_header; at < table.size(); at += entry) {
    compressed += little_endian(table, at);
    content += little_endian(table, at + 4);
  }
  return compressed == end ? std::optional(content) : none;
}

}  // namespace nodestage
