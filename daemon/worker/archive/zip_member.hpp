// ZipMember: the data of one member of a zip file, from start to end, verified.
//
// The local header must agree with the directory on the name, the method, and, where it has them,
// the sizes and the CRC-32. The data must have the recorded sizes and CRC-32, and no byte beyond
// the recorded size is returned. What follows the data (a data descriptor) only repeats the
// directory and is not read.
//
//   local header  "PK\3\4" | u16 needed version | u16 flags at 6 | u16 method | u32 DOS time |
//                 u32 CRC-32 at 14 | u32 packed size | u32 size | u16 lengths of name, extra
//                 fields at 26 | name | extra fields (0x0001: size, packed size) | data
#pragma once

#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

// Used by one thread, which keeps 2 MiB for the next member. Of the members of one thread, only the
// one that was opened last may be read.
class ZipMember {
 public:
  // Takes a member of a plain archive (ZipIndex::is_plain). Borrows both.
  ZipMember(const Source& source, const ZipIndex& index, std::size_t member)
      : source_(source), record_(index.record(member)), room_(index.end(member) - record_.offset) {}

  // Call it once. `start`, borrowed until the end: the file's bytes from the local header on, up to
  // the end of the member's room or less. If empty, they are read here.
  Status open(Bytes start = {});

  // Whether whole() can be called instead of next().
  [[nodiscard]] bool is_small() const;
  // All data, verified. Valid as long as `start`, and until the thread's next call.
  Result<Bytes> whole();

  // Fills `out` except at the end. Fewer bytes: the end, and everything was as recorded.
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
  [[nodiscard]] Error wrong_size() const {
    return damaged("the data do not have the recorded size");
  }
  [[nodiscard]] Error wrong_packed_size() const {
    return damaged("the compressed data do not have the recorded size");
  }

  const Source& source_;
  const ZipRecord record_;
  const std::uint64_t room_;  // bytes from the local header to whatever follows
  Bytes at_hand_;             // packed data that precede those at next_
  std::uint64_t next_ = 0;    // in the source
  std::uint64_t left_ = 0;    // packed data in the source from next_ on
  std::uint64_t given_ = 0;   // bytes
  std::uint32_t crc_ = 0;     // of them
  bool has_ended_ = false;    // Deflate64's data
};

}  // namespace nodestage
