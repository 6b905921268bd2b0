#include "daemon/worker/archive/zip_record.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/decode/inflater.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t k_in_wide_field = 0xffffffff;

enum System : std::uint8_t { msdos = 0, unix_like = 3, macos = 19 };

// In the process's time zone, which mktime() looks up. The last answer is kept, since a tree's
// files often have the same time.
std::int64_t time_of_dos(std::uint32_t dos_time) {
  thread_local std::uint32_t last = 0;
  thread_local std::int64_t last_time = -1;
  if (last == dos_time && last != 0) return last_time;
  tm parts{};
  parts.tm_year = static_cast<int>(dos_time >> 25) + 80;
  parts.tm_mon = static_cast<int>(dos_time >> 21 & 15) - 1;
  parts.tm_mday = static_cast<int>(dos_time >> 16 & 31);
  parts.tm_hour = static_cast<int>(dos_time >> 11 & 31);
  parts.tm_min = static_cast<int>(dos_time >> 5 & 63);
  parts.tm_sec = static_cast<int>(dos_time & 31) * 2;
  parts.tm_isdst = -1;
  last = dos_time;
  return last_time = std::mktime(&parts);
}

bool has_dos_year_2038(std::uint32_t dos_time) { return (dos_time >> 25) + 1980 >= 2038; }

}  // namespace

std::optional<std::string_view> find_extra(std::string_view extra, std::uint16_t id) {
  while (extra.size() >= 4) {
    const std::string_view field = extra.substr(4, little<std::uint16_t>(extra, 2));
    if (little<std::uint16_t>(extra, 0) == id) return field;
    extra.remove_prefix(4 + field.size());
  }
  return std::nullopt;
}

bool widen(std::string_view field, std::initializer_list<std::uint64_t*> numbers) {
  for (std::uint64_t* number : numbers) {
    if (*number != k_in_wide_field) continue;
    if (field.size() < 8) return false;
    *number = little<std::uint64_t>(field, 0);
    field.remove_prefix(8);
  }
  return true;
}

std::optional<ZipRecord> ZipRecord::parse(std::string_view data) {
  if (data.size() < k_bytes || !data.starts_with("PK\1\2"sv)) return std::nullopt;
  const std::size_t name_size = little<std::uint16_t>(data, 28);
  const std::size_t extra_size = little<std::uint16_t>(data, 30);
  ZipRecord record;
  record.whole = static_cast<std::uint32_t>(k_bytes + name_size + extra_size +
                                            little<std::uint16_t>(data, 32));
  if (record.whole > data.size()) return std::nullopt;
  record.system = little<std::uint8_t>(data, 5);
  record.flags = little<std::uint16_t>(data, 8);
  record.method = little<std::uint16_t>(data, 10);
  record.dos_time = little<std::uint32_t>(data, 12);
  record.crc = little<std::uint32_t>(data, 16);
  record.packed = little<std::uint32_t>(data, 20);
  record.size = little<std::uint32_t>(data, 24);
  record.attributes = little<std::uint32_t>(data, 38);
  record.offset = little<std::uint32_t>(data, 42);
  record.raw_name = data.substr(k_bytes, name_size);
  record.extra = data.substr(k_bytes + name_size, extra_size);
  if (record.size == k_in_wide_field || record.packed == k_in_wide_field ||
      record.offset == k_in_wide_field) {
    const auto field = find_extra(record.extra, 1);
    record.has_wide_fault = field && !widen(*field, {&record.size, &record.packed, &record.offset});
  }
  return record;
}

// Accepts stored, deflated, bzip2, LZMA, zstd, xz, PPMd. AES (99) has a password.
Status ZipRecord::check_readable() const {
  if ((flags & (encrypted | strong)) != 0) return password_fault();
  static constexpr std::uint16_t k_known[] = {0, 8, 12, 14, 93, 95, 98};
  if (std::find(std::begin(k_known), std::end(k_known), method) != std::end(k_known)) return {};
  const std::string_view where = method == deflated64 ? " (Deflate64) among others" : "";
  return fault(0,
               "is compressed with method " + std::to_string(method) + std::string(where) +
                   ", which nodestage cannot read",
               "Pack the data again: nodestage pack DIRECTORY");
}

std::string ZipRecord::name() const {
  std::string_view name = raw_name;
  const auto in_utf8 = find_extra(extra, 0x7075);
  if (in_utf8 && in_utf8->size() > 5) {
    const std::uint32_t name_crc = crc32_of(std::as_bytes(std::span(raw_name)));
    if (little<std::uint32_t>(*in_utf8, 1) == name_crc) name = in_utf8->substr(5);
  }
  std::string text(name);
  if (system == msdos && text.find('/') == std::string::npos) {
    std::replace(text.begin(), text.end(), '\\', '/');
  }
  return text;
}

std::uint32_t ZipRecord::unix_mode() const {
  if (system == unix_like || system == macos) return attributes >> 16;
  if (system != msdos) return 0;
  constexpr std::uint32_t k_read_only = 1;
  constexpr std::uint32_t k_directory = 16;
  const std::uint32_t mode = (attributes & k_directory) != 0 ? S_IFDIR | 0775 : S_IFREG | 0664;
  return (attributes & k_read_only) != 0 ? mode & (S_IFDIR | 0555) : mode;
}

// Seconds are signed, but a DOS time after 2038 shows that they wrapped around.
std::optional<std::int64_t> ZipRecord::unix_time() const {
  std::optional<std::uint32_t> seconds;
  if (const auto times = find_extra(extra, 0x5855); times && times->size() >= 8) {
    seconds = little<std::uint32_t>(*times, 4);
  }
  if (const auto times = find_extra(extra, 0x5455);
      times && times->size() >= 5 && (little<std::uint8_t>(*times, 0) & 1U) != 0) {
    seconds = little<std::uint32_t>(*times, 1);
  }
  if (!seconds) return std::nullopt;
  if (has_dos_year_2038(dos_time)) return *seconds;
  return static_cast<std::int32_t>(*seconds);
}

Entry ZipRecord::entry() const {
  Entry entry;
  entry.name = name();
  std::uint32_t mode = unix_mode();
  if (mode == 0) mode = 0664;
  if (entry.name.ends_with('/') && !S_ISDIR(mode)) mode = S_IFDIR | (mode & 07777) | 0111;
  entry.mode = mode & 07777;
  entry.mtime = timespec{unix_time().value_or(0), 0};
  if (!unix_time()) entry.mtime = timespec{time_of_dos(dos_time), 0};
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
    case S_IFIFO:
      entry.kind = Entry::Kind::file;
      entry.size = size;
      break;
    case S_IFDIR:
      entry.kind = Entry::Kind::directory;
      break;
    case S_IFLNK:
      entry.kind = Entry::Kind::symlink;
      break;
    default:
      entry.kind = Entry::Kind::other;
  }
  return entry;
}

}  // namespace nodestage
