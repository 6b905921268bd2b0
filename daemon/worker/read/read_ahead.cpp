#include "daemon/worker/read/read_ahead.hpp"

#include <algorithm>

namespace nodestage {
namespace {

constexpr std::size_t k_paid_at_once = std::size_t{128} * 1024;

}  // namespace

ReadAhead::ReadAhead(const Source& source, std::uint64_t offset, const ReadAheadLimits& limits)
    : source_(source), offset_(offset), limits_(limits), pool_(limits.block_bytes, limits.blocks) {}

ReadAhead::~ReadAhead() {
  stop();
  threads_.join();
}

Status ReadAhead::start() {
  const std::uint64_t rest = source_.size() - std::min(offset_, source_.size());
  const std::uint64_t reads = rest / limits_.block_bytes + 1;
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(reads, limits_.in_flight));
  return threads_.start(threads, [this] { work(); });
}

Result<Slice> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  const auto has_come = [&] { return is_stopped_ || wanted_ > last_ || ready_.contains(wanted_); };
  if (!has_come()) {
    if (ahead_ < limits_.blocks) ++ahead_;
    may_go_.notify_one();
    is_ready_.wait(lock, has_come);
  }
  if (is_stopped_) return stopped();
  if (wanted_ > last_) return Slice();
  const auto found = ready_.find(wanted_);
  if (!found->second) return found->second.error();
  Slice block = std::move(*found->second);
  ready_.erase(found);
  ++wanted_;
  may_go_.notify_one();
  return block;
}

void ReadAhead::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  pool_.stop();
  is_ready_.notify_all();
  may_go_.notify_all();
}

// Takes the buffer first, so that a thread with a ticket can always proceed and blocks come in
// order even if there are few.
void ReadAhead::work() {
  while (await_turn()) {
    BufferPool::Buffer buffer;
    const Status taken = guarded([&] { buffer = pool_.take(); });
    Ticket ticket = 0;
    if (!begin(ticket)) return;
    put(ticket, taken ? read(ticket, buffer) : taken.error());
  }
}

bool ReadAhead::await_turn() {
  std::unique_lock lock(mutex_);
  may_go_.wait(lock, [&] { return is_over() || begun_ + turns_ < wanted_ + ahead_; });
  if (is_over()) return false;
  ++turns_;
  return true;
}

bool ReadAhead::begin(Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (is_over()) return false;
  --turns_;
  ticket = begun_++;
  return true;
}

Result<Slice> ReadAhead::read(Ticket ticket, const BufferPool::Buffer& buffer) {
  TRY_ASSIGN(
      const Source::Fetched fetched,
      source_.fetch_at(offset_of(ticket), buffer.memory.first(size_of(ticket)), is_stopped_));
  source_.meter().count_relayed(fetched.relayed);
  const std::size_t owed = fetched.bytes - fetched.relayed;
  if (owed == 0) return buffer.filled(fetched.bytes);
  const std::lock_guard lock(paying_);
  // In small steps, so that progress is visible at a slow rate.
  for (std::size_t paid = 0; paid < owed; paid += k_paid_at_once) {
    TRY(source_.meter().count_read(std::min(k_paid_at_once, owed - paid), is_stopped_));
  }
  return buffer.filled(fetched.bytes);
}

// A short block is the last one; later blocks of other threads are dropped.
void ReadAhead::put(Ticket ticket, Result<Slice> block) {
  const std::lock_guard lock(mutex_);
  if (!block || block->size() < size_of(ticket)) {
    last_ = std::min(last_, ticket);
    may_go_.notify_all();  // the other threads are done
  }
  ready_.emplace(ticket, std::move(block));
  is_ready_.notify_one();
}

// The first block ends where the others begin: at a multiple of their size.
std::uint64_t ReadAhead::offset_of(Ticket ticket) const {
  if (ticket == 0) return offset_;
  return (offset_ / limits_.block_bytes + ticket) * limits_.block_bytes;
}

std::size_t ReadAhead::size_of(Ticket ticket) const {
  return static_cast<std::size_t>(offset_of(ticket + 1) - offset_of(ticket));
}

SourceBlocks::SourceBlocks(const Source& source, std::vector<Slice> first,
                           const ReadAheadLimits& limits)
    : first_(std::make_move_iterator(first.begin()), std::make_move_iterator(first.end())),
      is_all_(source.position() >= source.size()),
      ahead_(source, source.position(), limits) {}

Status SourceBlocks::start() { return is_all_ ? Status() : ahead_.start(); }

Result<Slice> SourceBlocks::next() {
  if (!first_.empty()) {
    Slice block = std::move(first_.front());
    first_.pop_front();
    return block;
  }
  return is_all_ ? Result<Slice>(Slice()) : ahead_.next();
}

}  // namespace nodestage
