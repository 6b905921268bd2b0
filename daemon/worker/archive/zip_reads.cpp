#include "daemon/worker/archive/zip_reads.hpp"

#include <algorithm>
#include <atomic>

namespace nodestage {
namespace {

constexpr std::size_t k_max_extra = 65535;
constexpr std::uint64_t k_large_member = ZipReads::k_run_bytes / 2;
// Other bytes between members are read along if they are fewer.
constexpr std::uint64_t k_gap = 128 * 1024;
// More than threads can use at once: the threads are the bound, not this number.
constexpr std::size_t k_buffers = 4096;

// The latest end of the member's data; the local header's length is not known yet.
std::uint64_t latest_end(const ZipIndex& index, std::size_t member) {
  const ZipRecord record = index.record(member);
  return std::min(index.end(member), record.offset + k_local_bytes + record.raw_name.size() +
                                         k_max_extra + record.packed);
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

ZipReads::ZipReads(const Source& source, const ZipIndex& index)
    : source_(source), index_(index), serial_(next_serial()), memory_(k_run_bytes, k_buffers) {
  plan_runs();
  was_read_.resize(runs_.size());
}

void ZipReads::plan_runs() {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const std::uint64_t offset = index_.offset(i);
    const std::uint64_t member_end = latest_end(index_, i);
    const bool is_large = member_end - offset > k_large_member;
    const bool joins = !is_large && !runs_.empty() && runs_.back().size != 0 &&
                       offset - end <= k_gap && member_end - runs_.back().offset <= k_run_bytes;
    if (!joins) runs_.push_back({offset, 0, i});
    if (!is_large) runs_.back().size = static_cast<std::uint32_t>(member_end - runs_.back().offset);
    end = member_end;
  }
}

std::size_t ZipReads::run_of(std::size_t member) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), member,
                                      [](std::size_t m, const Run& run) { return m < run.first; });
  return static_cast<std::size_t>(after - runs_.begin()) - 1;
}

Result<Slice> ZipReads::member(std::size_t member) {
  const std::size_t run = run_of(member);
  if (runs_[run].size == 0) return Slice();
  thread_local Held held;
  if (held.reads != serial_ || held.run != run) {
    held = {};
    TRY_ASSIGN(Slice slice, slice_of(run));
    held = {serial_, run, std::move(slice)};
  }
  const std::uint64_t skipped = index_.offset(member) - runs_[run].offset;
  const std::uint64_t size = index_.end(member) - index_.offset(member);
  if (skipped >= held.slice.size()) return damaged_zip(source_, "the file has become shorter");
  return held.slice.part(skipped, std::min<std::uint64_t>(size, held.slice.size() - skipped));
}

// Other threads that need the same run wait for the one that reads it.
Result<Slice> ZipReads::slice_of(std::size_t run) {
  const auto kept = this->kept(run);
  const std::lock_guard lock(kept->mutex);
  if (!kept->is_read) TRY(read(*kept));
  return kept->slice;
}

std::shared_ptr<ZipReads::Kept> ZipReads::kept(std::size_t run) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(kept_.begin(), kept_.end(),
                                  [run](const auto& kept) { return kept->run == run; });
  if (known != kept_.end()) {
    std::rotate(known, std::next(known), kept_.end());
    return kept_.back();
  }
  if (kept_.size() == k_runs_kept) kept_.erase(kept_.begin());
  kept_.push_back(std::make_shared<Kept>());
  kept_.back()->run = run;
  return kept_.back();
}

Result<std::size_t> ZipReads::read_again(std::uint64_t offset, std::span<std::byte> into) const {
  static const std::atomic<bool> k_never = false;
  TRY_ASSIGN(const Source::Fetched fetched, source_.fetch_at(offset, into, k_never));
  return fetched.bytes;
}

// The meter counts each run once.
Status ZipReads::read(Kept& kept) {
  const Run& run = runs_[kept.run];
  const BufferPool::Buffer buffer = memory_.take();
  const auto memory = buffer.memory.first(run.size);
  const bool is_known = was_read(kept.run);
  TRY_ASSIGN(const std::size_t count,
             is_known ? read_again(run.offset, memory) : source_.read_at(run.offset, memory));
  kept.slice = buffer.filled(count);
  kept.is_read = true;
  return {};
}

bool ZipReads::was_read(std::size_t run) {
  const std::lock_guard lock(mutex_);
  const bool before = was_read_[run];
  was_read_[run] = true;
  return before;
}

}  // namespace nodestage
