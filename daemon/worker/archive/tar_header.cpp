#include "daemon/worker/archive/tar_header.hpp"

#include "common/text/encodings.hpp"
#include "common/text/parsing.hpp"
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

bool is_zero(Bytes bytes) { return zeros_before_data(bytes) == bytes.size(); }

bool is_header(Bytes block) {
  return block.size() == k_tar_block && TarHeaderBlock(block).has_right_checksum() &&
         !is_zero(block);
}

// A block, or what there is of one at the end.
Bytes block_of(Bytes left) { return left.first(std::min(left.size(), k_tar_block)); }

constexpr std::string_view k_sparse = "GNU.sparse.";
constexpr std::string_view k_xattr = "SCHILY.xattr.";
constexpr std::string_view k_xattr_in_base64 = "LIBARCHIVE.xattr.";
constexpr std::size_t k_max_numbers = std::size_t{1} << 21U;
constexpr std::int64_t k_billion = 1'000'000'000;

Error invalid(std::string_view key) {
  return {0, "an extended header with an invalid " + std::string(key)};
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  return parse_number<std::uint64_t>(text);
}

// Reads "-1.25". Digits after the ninth of the fraction are cut off, towards the past.
std::optional<timespec> time_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  const auto seconds = decimal(text.substr(0, point));
  if (!seconds || *seconds > static_cast<std::uint64_t>(INT64_MAX) - 1) return std::nullopt;
  std::string_view digits = text.substr(std::min(point + 1, text.size()));
  std::int64_t fraction = 0;
  bool is_more = false;
  for (std::int64_t unit = k_billion / 10; !digits.empty(); digits.remove_prefix(1), unit /= 10) {
    if (digits[0] < '0' || digits[0] > '9') return std::nullopt;
    fraction += (digits[0] - '0') * unit;
    is_more = is_more || (unit == 0 && digits[0] != '0');
  }
  const auto whole = static_cast<std::int64_t>(*seconds);
  if (!is_negative) return timespec{whole, fraction};
  if (is_more) ++fraction;
  if (fraction == 0) return timespec{-whole, 0};
  return timespec{-whole - 1, k_billion - fraction};
}

// Sets the value of a key, or clears it if the record takes it back.
template <typename T>
Status set(std::optional<T>& target, std::string_view key, std::string_view text,
           std::optional<T> value) {
  if (!text.empty() && !value) return invalid(key);
  target = text.empty() ? std::nullopt : std::move(value);
  return {};
}

std::optional<std::string> name_of(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  return std::string(text);
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

bool TarHeaderBlock::is_zero() const {
  return block_[0] == '\0' && block_.find_first_not_of('\0') == std::string_view::npos;
}

std::optional<std::int64_t> TarHeaderBlock::checksum() const {
  return number(k_checksum, k_checksum_size);
}

bool TarHeaderBlock::has_right_checksum() const {
  const auto claimed = checksum();
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

TarHeaderBlock::Dialect TarHeaderBlock::dialect() const {
  const std::string_view magic = block_.substr(257, 8);
  if (magic == "ustar  \0"sv) return Dialect::gnu;
  return magic.starts_with("ustar"sv) ? Dialect::ustar : Dialect::v7;
}

std::string_view TarHeaderBlock::text(std::size_t at, std::size_t size) const {
  const std::string_view field = block_.substr(at, size);
  return field.substr(0, field.find('\0'));
}

void TarHeaderBlock::get_name(std::string& name) const {
  name.clear();
  if (dialect() == Dialect::ustar) {
    const std::string_view prefix = text(345, 155);
    if (!prefix.empty()) name.append(prefix).append("/");
  }
  name.append(text(0, 100));
}

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
  if (has_zeros_before_) add_note(note, "zeros before the first entry were skipped");
  if (has_junk_) add_note(note, k_junk_note);
  return note;
}

Status PaxHeader::read(std::string_view records) {
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    const auto length = decimal(records.substr(0, std::min(blank, records.size())));
    if (!length || blank == std::string_view::npos || *length <= blank + 1 ||
        *length > records.size() || records[*length - 1] != '\n') {
      return invalid("record");
    }
    const std::string_view record = records.substr(blank + 1, *length - blank - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return invalid("record");
    TRY(take(record.substr(0, equals), record.substr(equals + 1)));
    records.remove_prefix(*length);
  }
  return {};
}

Status PaxHeader::take(std::string_view key, std::string_view value) {
  if (key == "path") return set(path, key, value, name_of(value));
  if (key == "linkpath") return set(link, key, value, name_of(value));
  if (key == "size") return set(size, key, value, decimal(value));
  if (key == "mtime") return set(mtime, key, value, time_of(value));
  if (key.starts_with(k_xattr)) {
    take_xattr(percent_decoded(key.substr(k_xattr.size())), std::string(value));
  } else if (key.starts_with(k_xattr_in_base64)) {
    const auto bytes = from_base64(value);
    if (!bytes) return invalid(key);
    take_xattr(percent_decoded(key.substr(k_xattr_in_base64.size())), *bytes);
  } else if (key == "SCHILY.acl.access") {
    take_acl(k_access_acl, value);
  } else if (key == "SCHILY.acl.default") {
    take_acl(k_default_acl, value);
  }
  if (key == "SUN.holesdata") return Error{0, "a sparse file as only Solaris writes them"};
  return key.starts_with(k_sparse) ? take_sparse(key, value) : Status();
}

void PaxHeader::take_xattr(std::string name, std::string value) {
  if (!is_kept_xattr(name) || name.find('\0') != std::string::npos) return;
  // A name that no file system accepts counts as lost; there is no need to keep all of it.
  name.resize(std::min(name.size(), k_max_xattr_name + 1));
  value.resize(std::min(value.size(), k_max_xattr_value + 1));
  value.shrink_to_fit();
  put_xattr(xattrs, std::move(name), std::move(value));
}

// An ACL that names somebody without an id may be present as an attribute, too, which is complete.
void PaxHeader::take_acl(const char* name, std::string_view text) {
  const auto acl = acl_of_text(text);
  const bool is_there = std::any_of(xattrs.begin(), xattrs.end(),
                                    [name](const Xattr& xattr) { return xattr.name == name; });
  if (acl || !is_there) put_xattr(xattrs, name, acl.value_or(""));
}

Status PaxHeader::take_sparse(std::string_view key, std::string_view value) {
  if (!sparse) sparse.emplace();
  const std::string_view what = key.substr(k_sparse.size());
  if (what == "name") return set(sparse->name, key, value, name_of(value));
  if (what == "map") {
    sparse->numbers.clear();
    while (!value.empty()) {
      TRY(take_sparse("GNU.sparse.offset", take_part(value, ',')));
    }
    return {};
  }
  const auto number = decimal(value);
  if (!number) return invalid(key);
  if (what == "major") sparse->major = *number;
  if (what == "minor") sparse->minor = *number;
  if (what == "numblocks") sparse->has_count = true;
  if (what == "size" || what == "realsize") sparse->size = *number;
  if (what == "offset" || what == "numbytes") {
    if (sparse->numbers.size() >= k_max_numbers) return invalid(key);
    sparse->numbers.push_back(*number);
  }
  return {};
}

}  // namespace nodestage
