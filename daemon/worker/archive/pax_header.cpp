#include "daemon/worker/archive/pax_header.hpp"

#include <algorithm>

#include "common/text/encodings.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

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

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "%3D" becomes "="; other text stays.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
                           hex_digit(text[i + 2]) >= 0;
    plain += is_escape ? static_cast<char>(16 * hex_digit(text[i + 1]) + hex_digit(text[i + 2]))
                       : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

}  // namespace

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
    take_xattr(without_escapes(key.substr(k_xattr.size())), std::string(value));
  } else if (key.starts_with(k_xattr_in_base64)) {
    const auto bytes = from_base64(value);
    if (!bytes) return invalid(key);
    take_xattr(without_escapes(key.substr(k_xattr_in_base64.size())), *bytes);
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
      const std::size_t comma = std::min(value.find(','), value.size());
      TRY(take_sparse("GNU.sparse.offset", value.substr(0, comma)));
      value.remove_prefix(std::min(comma + 1, value.size()));
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
