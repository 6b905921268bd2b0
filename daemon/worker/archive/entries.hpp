// Entries: the contents of an archive, one after another. The boundary between formats and writers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {

class ArchiveContents;
class EntryData;

struct Entry {
  enum class Kind { file, directory, symlink, hard_link, fifo, other };  // other: device, socket
  std::string name;  // any bytes, as in the archive: possibly absolute, with "./" or ".."
  Kind kind = Kind::file;
  mode_t mode = 0;  // permission bits, including set-id and sticky
  std::optional<timespec> mtime;
  std::uint64_t size = 0;  // of the file with its holes; of a hard link: of the data with it
  SharedXattrs xattrs;     // of a file or directory
  std::string link;        // of a symlink: its text; of a hard link: the other entry's name
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

  // Null: nothing is known of the entries in advance.
  [[nodiscard]] virtual const ArchiveContents* contents() const { return nullptr; }
};

}  // namespace nodestage
