// ZipReads: reads the bytes of a zip file that its members' readers need, in few large reads.
//
// The first thread that needs one of several neighboring small members reads them all. Each thread
// keeps what it used last, and what several threads used last is kept for the others. The reader of
// a large member reads it itself.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "daemon/worker/archive/zip_index.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

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

}  // namespace nodestage
