#include "daemon/worker/zip_index.hpp"

#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "common/human.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t k_end_bytes = 22;
constexpr std::size_t k_member_bytes = 46;
constexpr std::size_t k_max_comment = 65535;
constexpr std::uint64_t k_max_index = 1ULL << 30;

std::uint64_t number(std::string_view data, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    value = value << 8 | (at + i < data.size() ? static_cast<unsigned char>(data[at + i]) : 0U);
  }
  return value;
}

Error truncated(const Source& source) {
  return fault(
      0,
      shown(source.path()) + ": cut off at " + human_bytes(source.size()) +
          ": the zip archive has no whole directory at its end",
      "Was its creation or transfer stopped, by a quota or a time limit? Test it with: unzip -t " +
          shown(source.path()));
}

Result<std::string> bytes_at(const Source& source, std::uint64_t offset, std::uint64_t size) {
  if (offset > source.size() || size > source.size() - offset || size > k_max_index) {
    return truncated(source);
  }
  std::string data(size, '\0');
  TRY_ASSIGN(const std::size_t count,
             source.read_at(offset, std::as_writable_bytes(std::span(data))));
  if (count < size) return truncated(source);
  return data;
}

Result<std::string> read_directory(const Source& source) {
  const std::uint64_t tail_size =
      std::min<std::uint64_t>(source.size(), k_end_bytes + k_max_comment);
  TRY_ASSIGN(const std::string tail, bytes_at(source, source.size() - tail_size, tail_size));
  std::size_t end = tail.rfind("PK\5\6"sv);
  // The comment, whose length is the last field, must reach to the file's end.
  while (end != std::string::npos && end + k_end_bytes + number(tail, end + 20, 2) != tail.size()) {
    end = end == 0 ? std::string::npos : tail.rfind("PK\5\6"sv, end - 1);
  }
  if (end == std::string::npos) return truncated(source);
  std::uint64_t size = number(tail, end + 12, 4);
  std::uint64_t offset = number(tail, end + 16, 4);
  if (end >= 20 && std::string_view(tail).substr(end - 20).starts_with("PK\6\7"sv)) {
    TRY_ASSIGN(const std::string wide, bytes_at(source, number(tail, end - 12, 8), 56));
    size = number(wide, 40, 8);
    offset = number(wide, 48, 8);
  }
  return bytes_at(source, offset, size);
}

// One member's extra fields; `size` and `offset` are replaced where they say so.
void read_extra(std::string_view extra, std::string& name, std::uint64_t packed,
                std::uint64_t& size, std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const std::uint64_t id = number(extra, 0, 2);
    const std::string_view field = extra.substr(4, number(extra, 2, 2));
    if (id == 1) {
      std::size_t at = 0;
      if (size == 0xffffffff) size = number(field, std::exchange(at, at + 8), 8);
      if (packed == 0xffffffff) at += 8;
      if (offset == 0xffffffff) offset = number(field, at, 8);
    }
    if (id == 0x7075 && field.size() > 5) {
      const auto crc =
          ::crc32(0, reinterpret_cast<const Bytef*>(name.data()), static_cast<uInt>(name.size()));
      if (number(field, 1, 4) == crc) name = field.substr(5);
    }
    extra.remove_prefix(4 + field.size());
  }
}

}  // namespace

Result<ZipIndex> read_zip_index(const Source& source) {
  TRY_ASSIGN(const std::string directory, read_directory(source));
  std::string_view rest = directory;
  ZipIndex index;
  while (rest.starts_with("PK\1\2"sv)) {
    const std::size_t name_size = number(rest, 28, 2);
    const std::size_t extra_size = number(rest, 30, 2);
    const std::size_t whole = k_member_bytes + name_size + extra_size + number(rest, 32, 2);
    if (whole > rest.size()) return truncated(source);
    std::string name(rest.substr(k_member_bytes, name_size));
    std::uint64_t size = number(rest, 24, 4);
    std::uint64_t offset = number(rest, 42, 4);
    read_extra(rest.substr(k_member_bytes + name_size, extra_size), name, number(rest, 20, 4), size,
               offset);
    index.members.push_back({offset, std::move(name), size});
    rest.remove_prefix(whole);
  }
  if (!rest.empty() && !rest.starts_with("PK\5\5"sv)) return truncated(source);
  const auto by_offset = [](const auto& a, const auto& b) { return a.offset < b.offset; };
  std::stable_sort(index.members.begin(), index.members.end(), by_offset);
  return index;
}

}  // namespace nodestage
