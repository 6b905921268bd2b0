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

#include <memory>
#include <mutex>
#include <vector>

#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// ZipReads: reads the bytes of a zip file that its members' readers need, in few large reads.
//
// The first thread that needs one of several neighboring small members reads them all. Each thread
// keeps what it used last, and what several threads used last is kept for the others. The reader of
// a large member reads it itself.
class ZipReads {
 public:
  static constexpr std::size_t k_run_bytes = std::size_t{1} << 20;
  static constexpr std::size_t k_runs_kept = 16;  // plus one for each thread

  // Borrows both.
  ZipReads(const Source& source, const ZipIndex& index);

  // The bytes from the member's local header to its end, or to the file's. Empty: the member is
  // large. Any thread.
  Result<Slice> member(std::size_t member);

 private:
  struct Run {
    std::uint64_t offset;
    std::uint32_t size;  // 0: one large member
    std::size_t first;   // member
  };
  struct Kept {
    std::size_t run = 0;
    std::mutex mutex;  // guards what follows
    bool is_read = false;
    Slice slice;
  };
  struct Held {               // by a thread
    std::uint64_t reads = 0;  // serial_
    std::size_t run = 0;
    Slice slice;
  };
  void plan_runs();
  [[nodiscard]] std::size_t run_of(std::size_t member) const;
  Result<Slice> slice_of(std::size_t run);
  std::shared_ptr<Kept> kept(std::size_t run);
  Status read(Kept& kept);
  Result<std::size_t> read_again(std::uint64_t offset, std::span<std::byte> into) const;
  bool was_read(std::size_t run);

  const Source& source_;
  const ZipIndex& index_;
  const std::uint64_t serial_;  // of this object; no other object had the same
  std::vector<Run> runs_;
  BufferPool memory_;
  std::mutex mutex_;                         // guards what follows
  std::vector<std::shared_ptr<Kept>> kept_;  // the one used last is at the end
  std::vector<bool> was_read_;               // or is being read now
};

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
