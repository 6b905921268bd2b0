#include "daemon/worker/archive/tar_header.hpp"

#include <algorithm>
#include <limits>

#include "daemon/worker/archive/container.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t k_checksum = 148;
constexpr std::size_t k_checksum_size = 8;

unsigned char byte_of(char c) { return static_cast<unsigned char>(c); }

std::optional<std::int64_t> base_256(std::string_view field) {
  // The bit that marks this base is not part of the number; the one below it is the sign.
  const bool is_negative = (byte_of(field[0]) & 0x40U) != 0;
  std::int64_t value = is_negative ? -1 : 0;
  constexpr std::int64_t k_edge = std::int64_t{1} << 55U;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (value >= k_edge || value < -k_edge) return std::nullopt;
    const unsigned byte =
        i > 0 ? byte_of(field[i]) : (byte_of(field[0]) & 0x7fU) | (is_negative ? 0x80U : 0U);
    value = value * 256 + byte;
  }
  return value;
}

}  // namespace

std::optional<std::int64_t> tar_number(std::string_view field) {
  if (!field.empty() && (byte_of(field[0]) & 0x80U) != 0) return base_256(field);
  while (field.starts_with(' ')) field.remove_prefix(1);
  // GNU tar skips a NUL before the digits; others treat it as the end.
  if (field.starts_with('\0') && field.find_first_not_of(" \0"sv) != std::string_view::npos)
    return std::nullopt;
  std::int64_t value = 0;
  for (const char c : field) {
    if (c == ' ' || c == '\0') break;
    if (c < '0' || c > '7' || value >= std::int64_t{1} << 60U) return std::nullopt;
    value = value * 8 + (c - '0');
  }
  return value;
}

bool TarHeader::is_zero() const {
  return block_[0] == '\0' && block_.find_first_not_of('\0') == std::string_view::npos;
}

bool TarHeader::has_right_checksum() const {
  const auto claimed = number(k_checksum, k_checksum_size);
  if (!claimed) return false;
  // The checksum's own field counts as blanks.
  std::int64_t sum = static_cast<std::int64_t>(k_checksum_size) * ' ';
  std::int64_t high = 0;  // bytes that are negative as signed ones
  const auto count = [&](std::string_view bytes, std::int64_t sign) {
    unsigned part = 0;
    unsigned part_high = 0;
    for (const char c : bytes) {
      part += byte_of(c);
      part_high += byte_of(c) >= 0x80 ? 1U : 0U;
    }
    sum += sign * part;
    high += sign * part_high;
  };
  count(block_, 1);
  count(block_.substr(k_checksum, k_checksum_size), -1);
  return *claimed == sum || *claimed == sum - 256 * high;
}

TarHeader::Dialect TarHeader::dialect() const {
  const std::string_view magic = block_.substr(257, 8);
  if (magic == "ustar  \0"sv) return Dialect::gnu;
  return magic.starts_with("ustar"sv) ? Dialect::ustar : Dialect::v7;
}

std::string_view TarHeader::text(std::size_t at, std::size_t size) const {
  const std::string_view field = block_.substr(at, size);
  return field.substr(0, field.find('\0'));
}

void TarHeader::get_name(std::string& name) const {
  name.clear();
  if (dialect() == Dialect::ustar) {
    const std::string_view prefix = text(345, 155);
    if (!prefix.empty()) name.append(prefix).append("/");
  }
  name.append(text(0, 100));
}

namespace {

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool is_header(Bytes block) {
  return block.size() == k_tar_block && TarHeader(block).has_right_checksum() && !is_zero(block);
}

// A block, or what there is of one at the end.
Bytes block_of(Bytes left) { return left.first(std::min(left.size(), k_tar_block)); }

}  // namespace

Result<bool> TarRest::find_archive() {
  for (Zeros before = Zeros::one;; before = Zeros::several) {
    TRY_ASSIGN(const bool is_there, bytes_.fill());
    if (!is_there) return false;
    const Bytes block = block_of(bytes_.left());
    if (is_header(block)) {
      if (!has_entry_ || before == Zeros::several) break;
      return decoder_.damaged("one block of zeros, and then more entries");
    }
    if (!is_zero(block)) {
      TRY(judge_junk(before));
      return false;
    }
    bytes_.skip(block.size());
  }
  if (has_entry_)
    ++archives_;
  else
    has_zeros_before_ = true;
  has_entry_ = false;
  return true;
}

Status TarRest::judge_junk(Zeros before) {
  if (const std::string kind = kind_of_start(bytes_.left()); !kind.empty())
    return other_archive(decoder_.path(), kind, {});
  if (!has_entry_) return decoder_.damaged("zeros, and then no tar header");
  if (before == Zeros::one) return decoder_.damaged("one block of zeros, and then no tar header");
  has_junk_ = true;
  for (bool is_there = true; is_there;) {
    const Bytes block = block_of(bytes_.left());
    if (is_header(block)) return decoder_.damaged("more entries, after bytes that are none");
    bytes_.skip(block.size());
    TRY_ASSIGN(is_there, bytes_.fill());
  }
  return {};
}

std::string TarRest::note() const {
  std::string note = archives_ > 1 ? joined_note(archives_) : "";
  const auto add = [&note](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (has_zeros_before_) add("zeros before the first entry were skipped");
  if (has_junk_) add(k_junk_note);
  return note;
}

}  // namespace nodestage
