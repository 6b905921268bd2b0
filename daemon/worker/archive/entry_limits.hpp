// EntryLimits: limits that no well-meant archive reaches, so that a harmful one fails with a clear
// fault before it costs much. The total that it may write is limited by the Allowance.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {

// Entries: the contents of an archive, one after another. The boundary between formats and writers.
class EntryData;
class ZipIndex;

struct Entry {
  enum class Kind { file, directory, symlink, hard_link, fifo, other };  // other: device, socket
  std::string name;  // any bytes, as in the archive: possibly absolute, with "./" or ".."
  Kind kind = Kind::file;
  mode_t mode = 0;  // permission bits, including set-id and sticky
  std::optional<timespec> mtime;
  std::uint64_t size = 0;  // of the file with its holes; of a hard link: of the data with it
  SharedXattrs xattrs;     // of a file or directory
  std::string link;        // of a symlink: its text; of a hard link: the other entry's name
  // Of a directory: the member that `nested` makes it of. It replaces no file.
  std::string made_of = {};
};

struct Block {
  std::uint64_t offset = 0;  // in the file; what no block covers is a hole
  Slice data;                // empty: there is no more
};

class Entries {
 public:
  Entries() = default;
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;
  virtual ~Entries() = default;

  // Null at the end: the archive was whole, to the last checksum. The entry belongs to the caller,
  // who may change it, until the next call. Unread data are skipped.
  virtual Result<Entry*> next() = 0;

  // The next data of the current entry. Release slices soon: their memory is bounded (buffer.hpp).
  virtual Result<Block> read() = 0;

  // If not null: files' data do not come from read(). Writers fetch them from here with the id() of
  // the file's entry. Valid as long as this object.
  [[nodiscard]] virtual const EntryData* data() const { return nullptr; }
  [[nodiscard]] virtual std::uint64_t id() const { return 0; }  // of the current entry

  // After the end: what its user should know of it, or "".
  [[nodiscard]] virtual std::string note() const { return {}; }

  // What the archive lists in advance about all of its members; null: nothing.
  [[nodiscard]] virtual const ZipIndex* contents() const { return nullptr; }
};

class EntryLimits {
 public:
  // source_bytes: the size of the archive itself. The site sets the limits of entries and ratio.
  // The defaults: 10,000,000 entries a minute would take more than an hour. Of nothing but zeros,
  // gzip reaches a ratio of 1,030, xz 7,000, and zstd 33,000; only bzip2 of zeros, and a zip whose
  // members share their data, reach more.
  explicit EntryLimits(std::uint64_t source_bytes, const ExtractRules& rules = {})
      : source_bytes_(source_bytes), rules_(rules) {}

  // Call it for each entry, in the archive's order. The fault does not name the entry.
  Status check(const Entry& entry);
  // Call it now and then, and at the end. `written`: bytes of all entries so far.
  [[nodiscard]] Status check_ratio(std::uint64_t written) const;

  // NAME_MAX: no Linux file system accepts more.
  static constexpr std::size_t k_part_bytes = 255;
  // Eight times PATH_MAX: no program could open it by its name in one call, few in several. Also
  // the limit of a hard link's target.
  static constexpr std::size_t k_name_bytes = std::size_t{32} * 1024;
  static constexpr std::size_t k_link_bytes = 4095;  // PATH_MAX less its NUL: of a symlink's text
  static constexpr std::size_t k_depth = 1000;
  // For directories, which are kept in memory until the end: their names and extended attributes,
  // and for each its time, mode, and position.
  static constexpr std::uint64_t k_directory_bytes = std::uint64_t{512} << 20;
  static constexpr std::uint64_t k_bytes_beside_name = 128;
  // A small archive of zeros harms nobody.
  static constexpr std::uint64_t k_ratio_from_bytes = std::uint64_t{4} << 30;

 private:
  const std::uint64_t source_bytes_;
  const ExtractRules rules_;
  std::uint64_t entries_ = 0;
  std::uint64_t directory_bytes_ = 0;
};

}  // namespace nodestage
