// One member of a zip file, as the central directory describes it.
//
//   record  "PK\1\2" | u8 version, u8 system | u16 needed version | u16 flags at 8 | u16 method |
//           u32 DOS time at 12 | u32 CRC-32 | u32 packed size at 20, u32 size | u16 lengths of
//           name, extra fields, comment at 28 | u16 disk | u16 | u32 attributes at 38 |
//           u32 offset at 42 | name | extra fields | comment
//   extra   u16 id, u16 size, data. These are read:
//           0x0001: u64 for each of size, packed size, offset that is 0xffffffff above
//           0x5455: u8 flags, s32 mtime if bit 0 is set; 0x5855: s32 atime, s32 mtime
//           0x7075: u8 version, u32 CRC-32 of the name, the name in UTF-8
//   Numbers are little-endian (APPNOTE.TXT 6.3, and extrafld.txt of Info-ZIP). The times of NTFS
//   (0x000a) and of PKWARE for Unix (0x000d) are not read, as in libarchive and unzip.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "daemon/worker/archive/entry_limits.hpp"

namespace nodestage {

inline constexpr std::size_t k_local_bytes =
    30;  // of a local header, without name and extra fields

// Takes as many bytes of `data` as the type has; they must exist.
template <typename Number>
Number little(std::string_view data, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value | Number{static_cast<unsigned char>(data[at + i])} << 8 * i);
  }
  return value;
}

// The first extra field with that id; empty if there is none.
std::optional<std::string_view> find_extra(std::string_view extra, std::uint16_t id);

// Replaces each of these numbers whose 32 bits are all set with its value in field 0x0001, in this
// order. False: the field is too short.
bool widen(std::string_view field, std::initializer_list<std::uint64_t*> numbers);

struct ZipRecord {
  static constexpr std::size_t k_bytes = 46;  // of its fixed part
  enum Method : std::uint16_t { stored = 0, deflated = 8, deflated64 = 9 };
  enum Flag : std::uint16_t { encrypted = 1, patched = 0x20, strong = 0x40, masked = 0x2000 };

  std::uint64_t offset = 0;  // of the local header, as written
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::string_view raw_name;  // as in the local header
  std::string_view extra;
  std::uint32_t crc = 0;
  std::uint32_t attributes = 0;
  std::uint32_t dos_time = 0;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint8_t system = 0;      // the one that made it
  std::uint32_t whole = 0;      // bytes of the record
  bool has_wide_fault = false;  // a 64-bit field is announced but missing

  // The record at the start of `data`; empty if there is no whole record. Views point into `data`.
  static std::optional<ZipRecord> parse(std::string_view data);

  // For an archive that is not plain: a fault for a password, and for a method that libarchive does
  // not know.
  [[nodiscard]] Status check_readable() const;

  // The name's bytes; UTF-8 if the archive has that too. In names of MS-DOS, "\" separates
  // components if there is no "/".
  [[nodiscard]] std::string name() const;

  // Everything except a link's text. Attributes are read as libarchive reads them: a trailing "/"
  // is a directory whatever they say, a FIFO is a file (Info-ZIP writes that for data from a pipe),
  // no mode at all is 0664. Times: Unix times if present, otherwise DOS times in the process's time
  // zone.
  [[nodiscard]] Entry entry() const;

 private:
  [[nodiscard]] std::uint32_t unix_mode() const;
  [[nodiscard]] std::optional<std::int64_t> unix_time() const;
};

}  // namespace nodestage
