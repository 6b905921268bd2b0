// ZipReads: the bytes of a zip file that its members' readers need, in few large reads.
//
// Small members that are neighbours are read together by the first thread that needs one of them.
// Each thread holds on to what it used last, and what several threads used last is kept for the
// others. A member that is large in the file is for its reader to read on its own.
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
  static constexpr std::size_t k_runs_kept = 16;  // beside one for each thread

  // Both borrowed.
  ZipReads(const Source& source, const ZipIndex& index);

  // From the member's local header to its end, or to the file's; empty: it is large. Any thread.
  Result<Slice> member(std::size_t member);

 private:
  struct Run {
    std::uint64_t offset;
    std::uint32_t size;  // 0: one large member
    std::size_t first;   // member
  };
  struct Kept {
    std::size_t run = 0;
    std::mutex mutex;  // over what follows
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
  bool was_read(std::size_t run);

  const Source& source_;
  const ZipIndex& index_;
  const std::uint64_t serial_;  // of this object; no other one has had it
  std::vector<Run> runs_;
  BufferPool memory_;
  std::mutex mutex_;                         // over what follows
  std::vector<std::shared_ptr<Kept>> kept_;  // the one used last comes last
  std::vector<bool> was_read_;               // or is being read now
};

}  // namespace nodestage
