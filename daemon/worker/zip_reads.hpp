// ZipReads: the bytes of a zip file that its members' readers need, in few large reads.
//
// Small members that are neighbours are read together, once, by the first thread that needs one of
// them, and kept for the others for a while. A member that is large in the file is for its reader
// to read on its own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/worker/buffer.hpp"
#include "daemon/worker/zip_index.hpp"

namespace nodestage {

class ZipReads {
 public:
  static constexpr std::size_t k_run_bytes = std::size_t{1} << 20;
  static constexpr std::size_t k_runs_kept = 16;  // and one for each thread

  // Both borrowed.
  ZipReads(const Source& source, const ZipIndex& index);

  // From the member's local header to its end, or to the file's; empty: it is large. Any thread;
  // one that waits for another one here must not hold what that one has given out.
  Result<Slice> member(std::size_t member);

 private:
  struct Run {
    std::uint64_t offset;
    std::uint32_t size;  // 0: one large member
    std::size_t first;   // member
  };
  struct Kept {
    std::mutex mutex;  // over what follows
    bool is_read = false;
    Slice slice;
  };
  void plan_runs();
  std::shared_ptr<Kept> kept(std::size_t run);
  Status read(std::size_t run, Kept& kept);

  const Source& source_;
  const ZipIndex& index_;
  std::vector<Run> runs_;
  BufferPool memory_;
  std::mutex mutex_;  // over what follows
  std::map<std::size_t, std::shared_ptr<Kept>> kept_;
};

}  // namespace nodestage
