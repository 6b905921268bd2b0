// ZipMember: the data of one member of a zip file, from its start to its end, verified.
//
// The local header must say what the directory says: the name, the method, and the sizes and the
// CRC-32 where it has them. The data must come to the told sizes and CRC-32, and not a byte beyond
// the told size is given out. What follows them (a data descriptor) only repeats the directory and
// is not read.
//
//   local header  "PK\3\4" | u16 needed version | u16 flags at 6 | u16 method | u32 DOS time |
//                 u32 CRC-32 at 14 | u32 packed size | u32 size | u16 lengths of name, extra
//                 fields at 26 | name | extra fields (0x0001: size, packed size) | data
#pragma once

#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// Used by one thread, which keeps 2 MiB for the next one; of those on one thread only the one that
// was opened last may be read from.
class ZipMember {
 public:
  // Of a plain one (ZipIndex::is_plain). Borrows both.
  ZipMember(const Source& source, const ZipIndex& index, std::size_t member)
      : source_(source), record_(index.record(member)), room_(index.end(member) - record_.offset) {}

  // Once. `start`, borrowed until the end: the file's bytes from the local header on, to the end of
  // the member's room or less. Empty: they are read here.
  Status open(Bytes start = {});

  // Whether whole() can be called instead of next().
  [[nodiscard]] bool is_small() const;
  // All data, verified; valid as long as `start` and until the thread's next call.
  Result<Bytes> whole();

  // Fills `out` but at the end; fewer bytes: that is the end, and all was as told.
  Result<std::size_t> next(std::span<std::byte> out);

  [[nodiscard]] std::uint64_t size() const { return record_.size; }

 private:
  [[nodiscard]] Result<std::size_t> header_size(std::string_view local) const;
  Status inflate_all(std::span<std::byte> out);
  Result<std::size_t> unpack(std::span<std::byte> out);
  Result<std::size_t> inflate(std::span<std::byte> out);
  Result<std::size_t> inflate64(std::span<std::byte> out);
  Result<std::size_t> copy(std::span<std::byte> out);
  Result<Bytes> next_packed();
  [[nodiscard]] Status check_end() const;
  [[nodiscard]] Error damaged(const std::string& cause) const {
    return damaged_zip(source_, cause);
  }
  [[nodiscard]] Error wrong_size() const { return damaged("the data do not have the size told"); }
  [[nodiscard]] Error wrong_packed_size() const {
    return damaged("the compressed data do not have the size told");
  }

  const Source& source_;
  const ZipRecord record_;
  const std::uint64_t room_;  // bytes from the local header to what follows
  Bytes at_hand_;             // packed data, before those at next_
  std::uint64_t next_ = 0;    // in the source
  std::uint64_t left_ = 0;    // packed data in the source from next_ on
  std::uint64_t given_ = 0;   // bytes
  std::uint32_t crc_ = 0;     // of them
  bool has_ended_ = false;    // Deflate64's data
};

}  // namespace nodestage
