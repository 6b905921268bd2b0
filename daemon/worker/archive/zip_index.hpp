// The central directory of a zip file: the positions of its members, and what it lists about them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// One member of a zip file, as the central directory describes it.
//
//   record  "PK\1\2" | u8 version, u8 system | u16 needed version | u16 flags at 8 | u16 method |
//           u32 DOS time at 12 | u32 CRC-32 | u32 packed size at 20, u32 size | u16 lengths of
//           name, extra fields, comment at 28 | u16 disk at 34 | u16 | u32 attributes at 38 |
//           u32 offset at 42 | name | extra fields | comment
//   extra   u16 id, u16 size, data. These are read:
//           0x0001: u64 for each of size, packed size, offset that is 0xffffffff above
//           0x5455: u8 flags, s32 mtime if bit 0 is set; 0x5855: s32 atime, s32 mtime
//           0x7075: u8 version, u32 CRC-32 of the name, the name in UTF-8
//   Numbers are little-endian (APPNOTE.TXT 6.3, and extrafld.txt of Info-ZIP). The times of NTFS
//   (0x000a) and of PKWARE for Unix (0x000d) are not read, as in libarchive and unzip.

// Of a local header, without name and extra fields.
inline constexpr std::size_t k_local_bytes = 30;

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
  std::uint16_t disk = 0;       // where the local header is, if zip has split the archive
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

// The members in the order of their positions in the file, in which later ones win. Its memory is
// the directory itself and 16 bytes for each member.
class ZipIndex {
 public:
  struct Place {
    std::uint64_t offset;  // of the local header
    std::uint32_t record;  // in the directory
  };

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  // Valid as long as the index. Any thread.
  [[nodiscard]] ZipRecord record(std::size_t member) const;
  [[nodiscard]] std::uint64_t offset(std::size_t member) const { return places_[member].offset; }
  // The end of the member's room: the start of the next member or of the directory.
  [[nodiscard]] std::uint64_t end(std::size_t member) const {
    return member + 1 < places_.size() ? places_[member + 1].offset : directory_offset_;
  }

  [[nodiscard]] std::uint64_t total_size() const { return total_size_; }  // of all data, unpacked
  // Where the first member begins, or the directory if there is none.
  [[nodiscard]] std::uint64_t begin() const {
    return places_.empty() ? directory_offset_ : places_.front().offset;
  }
  // Whether all members are stored or deflated (Deflate64 too) and have no password: then many
  // threads can read it, and every member is readable.
  [[nodiscard]] bool is_plain() const { return is_plain_; }
  // Whether the file continues after the archive's end.
  [[nodiscard]] bool has_junk() const { return has_junk_; }
  // Whether it is one as PyTorch writes it. If not `pickle_says_it`, its version must be there,
  // too.
  [[nodiscard]] bool has_checkpoint(bool pickle_says_it) const;
  // Whether zip itself has split the archive.
  [[nodiscard]] bool is_split() const { return is_split_; }

 private:
  friend Result<ZipIndex> read_zip_index(const Source& source);
  Status list_members(const Source& source, std::uint64_t shift);
  [[nodiscard]] Status move_to_disk(const Source& source, ZipRecord& record) const;
  [[nodiscard]] Status check_places(const Source& source) const;
  [[nodiscard]] std::string_view text() const { return directory_; }

  std::string directory_;
  std::vector<Place> places_;
  std::uint64_t directory_offset_ = 0;
  std::uint64_t total_size_ = 0;
  bool is_plain_ = true;
  bool has_junk_ = false;
  bool is_split_ = false;
};

// Faults: the directory at the file's end is missing (the file is cut off); members overlap each
// other or the directory (a bomb, or damage). Offsets that do not count the data before the archive
// (a self-extractor) are corrected. Bytes after the archive's end are not a fault if the directory
// is where the end record says. If zip itself has split the archive, the source must have all
// parts: a part is a disk, and each offset is one in a disk.
//
//   end record  "PK\5\6" … u16 disk at 4, u16 disk of the directory at 6, u32 size at 12, u32
//   offset
//               at 16, u16 comment at 20
//   its zip64   "PK\6\7" 20 bytes before it, u32 disk at 4, u64 at 8: where "PK\6\6" is: u32 disk
//   at
//               16, u32 disk of the directory at 20, u64 size at 40, offset at 48
//   members     see ZipRecord; a signature, "PK\5\5", may follow
Result<ZipIndex> read_zip_index(const Source& source);

// Whether the file ends as a zip does, however it starts.
Result<bool> has_zip_end(const Source& source);

// "PATH: damaged or cut off: CAUSE", with the advice.
Error damaged_zip(const Source& source, const std::string& cause);

}  // namespace nodestage
