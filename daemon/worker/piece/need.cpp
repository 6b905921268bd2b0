#include "daemon/worker/piece/need.hpp"

#include <lzma.h>
#include <zstd.h>

#include <array>
#include <optional>
#include <vector>

#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/decode/zstd_seek_table.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_best_gzip_ratio = 1032;
constexpr std::uint64_t k_gzip_wrap = 1ULL << 32;
constexpr std::uint64_t k_max_xz_index = 64 * 1024 * 1024;
constexpr std::size_t k_zstd_header = 18;               // the longest
constexpr std::uint64_t k_bytes_per_inode = 64 * 1024;  // a guess for archives without an index

// Fewer bytes if the file is shorter.
Result<std::vector<std::byte>> bytes_at(const Source& source, std::uint64_t offset,
                                        std::uint64_t size) {
  std::vector<std::byte> data(size);
  TRY_ASSIGN(const std::size_t count, source.read_at(offset, data));
  data.resize(count);
  return data;
}

const std::uint8_t* as_bytes(const std::vector<std::byte>& data) {
  return reinterpret_cast<const std::uint8_t*>(data.data());
}

struct Content {
  std::uint64_t expected;
  std::uint64_t least;
};

// The last member's size modulo 4 GiB. If it is smaller than the file, it has wrapped around if the
// file is large enough for that; otherwise there are several members.
Result<std::optional<Content>> in_gzip(const Source& source) {
  if (source.size() < 18) return std::optional<Content>();
  TRY_ASSIGN(const auto end, bytes_at(source, source.size() - 4, 4));
  std::uint64_t last = 0;
  for (std::size_t i = end.size(); i-- > 0;) last = last << 8 | std::to_integer<unsigned>(end[i]);
  const bool is_size = last >= source.size() && last / k_best_gzip_ratio <= source.size();
  if (is_size) return std::optional(Content{last, last});
  if (source.size() < k_gzip_wrap / 4) return std::optional<Content>();
  while (last < source.size()) last += k_gzip_wrap;
  return std::optional(Content{last, source.size()});
}

// Reads the index of the last stream, which is the only one in nearly all files. Calls use(index)
// if there is one.
template <typename Use>
Status with_xz_index(const Source& source, Use use) {
  constexpr std::size_t k_footer = LZMA_STREAM_HEADER_SIZE;
  if (source.size() < 2 * k_footer) return {};
  const std::uint64_t end = source.size() - k_footer;
  TRY_ASSIGN(const auto footer, bytes_at(source, end, k_footer));
  lzma_stream_flags flags{};
  if (footer.size() < k_footer || lzma_stream_footer_decode(&flags, as_bytes(footer)) != LZMA_OK ||
      flags.backward_size > std::min(k_max_xz_index, end)) {
    return {};
  }
  TRY_ASSIGN(const auto data, bytes_at(source, end - flags.backward_size, flags.backward_size));
  lzma_index* index = nullptr;
  std::uint64_t memory = k_max_xz_index * 4;
  std::size_t at = 0;
  if (lzma_index_buffer_decode(&index, &memory, nullptr, as_bytes(data), &at, data.size()) !=
      LZMA_OK) {
    return {};
  }
  use(index);
  lzma_index_end(index, nullptr);
  return {};
}

Result<std::optional<Content>> in_xz(const Source& source) {
  std::optional<Content> content;
  TRY(with_xz_index(source, [&content](const lzma_index* index) {
    const std::uint64_t size = lzma_index_uncompressed_size(index);
    content = Content{size, size};
  }));
  return content;
}

Result<std::optional<Content>> in_zstd(const Source& source) {
  TRY_ASSIGN(const auto all, content_by_seek_table(source));
  if (all) return std::optional(Content{*all, *all});
  TRY_ASSIGN(const auto start, bytes_at(source, 0, k_zstd_header));
  const unsigned long long stated = ZSTD_getFrameContentSize(start.data(), start.size());
  if (stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == ZSTD_CONTENTSIZE_ERROR)
    return std::optional<Content>();
  return std::optional(Content{stated, stated});
}

// Empty: the format does not state it.
Result<std::optional<Content>> content_of(const Source& source, Coding coding) {
  if (coding == Coding::gzip) return in_gzip(source);
  if (coding == Coding::xz) return in_xz(source);
  if (coding == Coding::zstd) return in_zstd(source);
  return std::optional<Content>();
}

Need exactly(const Amount& amount) { return {amount, amount}; }

}  // namespace

Need need_of_file(const struct stat& info) {
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const auto stored = static_cast<std::uint64_t>(info.st_blocks) * 512;
  return exactly({in_blocks(std::min(size, stored)), 1});
}

Need need_of(const NewestChoice& choice) {
  Amount sum{0, 1};
  for (const NewestEntry& entry : choice.entries) {
    if (S_ISREG(entry.info.st_mode)) sum = sum + need_of_file(entry.info).expected;
  }
  return exactly(sum);
}

Need need_of_members(const ArchiveContents& contents, const EntryFilter& filter) {
  Amount sum{0, 1};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const ArchiveContents::Member member = contents.member(i);
    const auto name = clean_entry_name(member.name);
    if (!name || !filter.map(*name)) continue;
    sum = sum + Amount{in_blocks(member.size), 1};
  }
  return exactly(sum);
}

std::uint64_t xz_blocks_of(const Source& source) {
  std::uint64_t blocks = 0;
  const Status looked = with_xz_index(
      source, [&blocks](const lzma_index* index) { blocks = lzma_index_block_count(index); });
  return looked ? blocks : 0;
}

// Several members, streams, or frames contain more than one of them announces.
Result<Need> need_of_archive(const Source& source, Coding coding, Container container) {
  const std::uint64_t size = source.size();
  TRY_ASSIGN(const auto content, content_of(source, coding));
  const bool is_stored = coding == Coding::plain && is_stream(container);
  const std::uint64_t guess = is_stored ? size : more(size, size);
  const std::uint64_t expected = content ? std::max(content->expected, size) : guess;
  const std::uint64_t least = content ? std::max(content->least, size) : size;
  return Need{{expected, 1 + expected / k_bytes_per_inode}, {least, 1}};
}

}  // namespace nodestage
