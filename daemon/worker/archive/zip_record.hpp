// One member of a zip file, as the central directory tells of it.
//
//   record  "PK\1\2" | u8 version, u8 system | u16 needed version | u16 flags at 8 | u16 method |
//           u32 DOS time at 12 | u32 CRC-32 | u32 packed size at 20, u32 size | u16 lengths of
//           name, extra fields, comment at 28 | u16 disk | u16 | u32 attributes at 38 |
//           u32 offset at 42 | name | extra fields | comment
//   extra   u16 id, u16 size, data. Read are
//           0x0001: u64 for each of size, packed size, offset that is 0xffffffff above
//           0x5455: u8 flags, s32 mtime if bit 0 is set; 0x5855: s32 atime, s32 mtime
//           0x7075: u8 version, u32 CRC-32 of the name, the name in UTF-8
//   Numbers are little-endian (APPNOTE.TXT 6.3, and extrafld.txt of Info-ZIP). The times of NTFS
//   (0x000a) and of PKWARE for Unix (0x000d) are not read: libarchive and unzip do not, either.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "daemon/worker/archive/entries.hpp"

namespace nodestage {

// As many bytes of `data` as the type has; they must be there.
template <typename Number>
Number little(std::string_view data, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value | Number{static_cast<unsigned char>(data[at + i])} << 8 * i);
  }
  return value;
}

// The first extra field of that id; nothing: there is none.
std::optional<std::string_view> find_extra(std::string_view extra, std::uint16_t id);

// What field 0x0001 has in the place of each of these numbers that has all its 32 bits set, in this
// order. False: the field is too short.
bool widen(std::string_view field, std::initializer_list<std::uint64_t*> numbers);

struct ZipRecord {
  static constexpr std::size_t k_bytes = 46;  // of its fixed part
  enum Method : std::uint16_t { stored = 0, deflated = 8, deflated64 = 9 };
  enum Flag : std::uint16_t { encrypted = 1, patched = 0x20, strong = 0x40, masked = 0x2000 };

  std::uint64_t offset = 0;  // of the local header, as written
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::string_view raw_name;  // in the local header, too
  std::string_view extra;
  std::uint32_t crc = 0;
  std::uint32_t attributes = 0;
  std::uint32_t dos_time = 0;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint8_t system = 0;      // that made it
  std::uint32_t whole = 0;      // bytes of the record
  bool has_wide_fault = false;  // a 64-bit field is announced and not there

  // The record at the start of `data`; nothing: that is none, or not whole. Views stay in `data`.
  static std::optional<ZipRecord> parse(std::string_view data);

  // Of an archive that is not plain: a fault for a password, and for a method that libarchive does
  // not know.
  [[nodiscard]] Status check_readable() const;

  // As its bytes are; UTF-8 where the archive has that too. Of MS-DOS, "\" separates parts where
  // there is no "/".
  [[nodiscard]] std::string name() const;

  // All but a link's text. As libarchive understands the attributes: a trailing "/" is a directory
  // whatever they say, a FIFO is a file (Info-ZIP writes that for data from a pipe), no mode at all
  // is 0664. Times: Unix where it is there, else DOS, which is in the process's time zone.
  [[nodiscard]] Entry entry() const;

 private:
  [[nodiscard]] std::uint32_t unix_mode() const;
  [[nodiscard]] std::optional<std::int64_t> unix_time() const;
};

}  // namespace nodestage
