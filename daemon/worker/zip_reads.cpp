#include "daemon/worker/zip_reads.hpp"

#include <fcntl.h>

#include <algorithm>

namespace nodestage {
namespace {

constexpr std::size_t k_local_bytes = 30;
constexpr std::size_t k_max_extra = 65535;
constexpr std::uint64_t k_large = ZipReads::k_run_bytes / 2;
// Other bytes between members are read with them when they are fewer.
constexpr std::uint64_t k_gap = 128 * 1024;
// More than threads can be in use at once: it bounds nothing, the threads do.
constexpr std::size_t k_buffers = 4096;

// Where the member's data must have ended; the local header's extra fields are not known yet.
std::uint64_t latest_end(const ZipIndex& index, std::size_t member) {
  const ZipRecord record = index.record(member);
  return std::min(index.end(member), record.offset + k_local_bytes + record.raw_name.size() +
                                         k_max_extra + record.packed);
}

}  // namespace

ZipReads::ZipReads(const Source& source, const ZipIndex& index)
    : source_(source), index_(index), memory_(k_run_bytes, k_buffers) {
  plan_runs();
}

void ZipReads::plan_runs() {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const std::uint64_t offset = index_.offset(i);
    const std::uint64_t member_end = latest_end(index_, i);
    const bool is_large = member_end - offset > k_large;
    const bool joins = !is_large && !runs_.empty() && runs_.back().size != 0 &&
                       offset - end <= k_gap && member_end - runs_.back().offset <= k_run_bytes;
    if (!joins) runs_.push_back({offset, 0, i});
    if (!is_large) runs_.back().size = static_cast<std::uint32_t>(member_end - runs_.back().offset);
    end = member_end;
  }
}

Result<Slice> ZipReads::member(std::size_t member) {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), member,
                                      [](std::size_t m, const Run& run) { return m < run.first; });
  const auto run = static_cast<std::size_t>(after - runs_.begin()) - 1;
  if (runs_[run].size == 0) return Slice();
  const auto kept = this->kept(run);
  const std::lock_guard lock(kept->mutex);
  if (!kept->is_read) TRY(read(run, *kept));
  const std::uint64_t skipped = index_.offset(member) - runs_[run].offset;
  const std::uint64_t size = index_.end(member) - index_.offset(member);
  if (skipped >= kept->slice.size()) return damaged_zip(source_, "the file has become shorter");
  return kept->slice.part(skipped, std::min<std::uint64_t>(size, kept->slice.size() - skipped));
}

// Writers go up through the archive: the lowest run is needed last.
std::shared_ptr<ZipReads::Kept> ZipReads::kept(std::size_t run) {
  const std::lock_guard lock(mutex_);
  auto& kept = kept_[run];
  if (kept) return kept;
  kept = std::make_shared<Kept>();
  auto made = kept;
  if (kept_.size() > k_runs_kept) {
    kept_.erase(kept_.begin()->first == run ? std::next(kept_.begin()) : kept_.begin());
  }
  return made;
}

Status ZipReads::read(std::size_t run, Kept& kept) {
  const BufferPool::Buffer buffer = memory_.take();
  const auto memory = buffer.memory.first(runs_[run].size);
  TRY_ASSIGN(const std::size_t count, source_.read_at(runs_[run].offset, memory));
  kept.slice = buffer.filled(count);
  kept.is_read = true;
  return {};
}

}  // namespace nodestage
