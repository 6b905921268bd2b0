#include "daemon/worker/relay/spool_ring.hpp"

#include <unistd.h>

#include <algorithm>

#include "common/wire/status_file.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {
namespace {

using std::chrono::milliseconds;
using Lock = std::lock_guard<std::mutex>;

// Every change raises a word; this step is for the time that a reader keeps others waiting.
constexpr milliseconds k_look_interval{200};
constexpr milliseconds k_step_without_reader{1000};
// The staging worker reads in blocks, and notes its position after each.
constexpr std::uint64_t k_local_block = 1ULL << 20;

std::uint64_t difference(std::uint64_t one, std::uint64_t other) {
  return one > other ? one - other : 0;
}

milliseconds within(RelayClock::duration left, milliseconds step) {
  return std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0), step);
}

// Calls `move` for the parts of [offset, offset + size), which may go beyond the ring's end.
template <typename Data, typename Move>
Status in_parts(const SpoolRing::Place& place, std::uint64_t offset, Data data, Move move) {
  while (!data.empty()) {
    const std::uint64_t to_end = place.ring - offset % place.ring;
    const auto part = data.first(std::min<std::uint64_t>(to_end, data.size()));
    const auto at = static_cast<off_t>(spool_offset(place.slot, place.ring, offset));
    const ssize_t count = move(place.spool_fd, part.data(), part.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("the relay's spool on this node's disk");
    if (count == 0) return Error{EIO, "the relay's spool on this node's disk is too short"};
    data = data.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace

SpoolRing::SpoolRing(const Place& place)
    : place_(place), size_(place.kind == RelayKind::directory ? UINT64_MAX : place.size) {}

std::uint64_t SpoolRing::watermark() const {
  const Lock lock(mutex_);
  return watermark_;
}

std::uint64_t SpoolRing::left() const {
  const Lock lock(mutex_);
  return size_ - watermark_;
}

std::size_t SpoolRing::successors() const {
  const Lock lock(mutex_);
  return successors_.size();
}

bool SpoolRing::has_beginning() const {
  const Lock lock(mutex_);
  return low_ == 0;
}

bool SpoolRing::is_over() const {
  const Lock lock(mutex_);
  return why_.has_value();
}

// The staging worker's words are claims: whatever they say, only its own data suffer.
bool SpoolRing::has_local() const {
  return !is_written_ && slot().reader == number(RelayReader::reading);
}

std::uint64_t SpoolRing::local_position() const {
  return std::min(slot().position.load(), watermark_);
}

std::uint64_t SpoolRing::local_needs() const {
  return difference(local_position(), place_.ring / 4);
}

SpoolRing::Bounds SpoolRing::bounds() const {
  Bounds bounds;
  const auto add = [&bounds](std::uint64_t needed, std::uint64_t position) {
    bounds.has_reader = true;
    bounds.needed = std::min(bounds.needed, needed);
    bounds.fastest = std::max(bounds.fastest, position);
  };
  if (has_local()) add(local_needs(), local_position());
  if (is_written_) add(watermark_, watermark_);
  for (const auto& successor : successors_) {
    if (!successor.is_dropped) add(successor.sent, successor.sent);
  }
  return bounds;
}

std::uint64_t SpoolRing::room() const {
  const Bounds at = bounds();
  if (!at.has_reader) return 0;
  const std::uint64_t end =
      std::min({at.needed + place_.ring, at.fastest + ring_ahead(place_.ring), size_});
  return difference(end, watermark_);
}

bool SpoolRing::blocks(std::uint64_t needed) const { return needed + place_.ring <= watermark_; }

bool SpoolRing::is_any_starved() const {
  if (is_written_) return true;  // the staging worker, which could write more
  if (has_local() && !blocks(local_needs()) &&
      watermark_ - local_position() < std::min(k_local_block, place_.ring / 8))
    return true;
  return std::any_of(successors_.begin(), successors_.end(), [this](const Successor& successor) {
    return !successor.is_dropped && successor.sent >= watermark_;
  });
}

// A reader that kept others waiting at the last look has done so until now. After a pause of the
// whole machine, only a step of that counts. Who has to begin a directory's stream again would cost
// more than it does by being a little slower than the others.
void SpoolRing::add_time() {
  const auto now = place_.now();
  const auto time = std::min<RelayClock::duration>(now - looked_, 2 * k_look_interval);
  const bool fades = place_.kind == RelayKind::directory;
  const auto add = [time, fades](Burden& burden) {
    if (burden.is_on) burden.time += time;
    if (!burden.is_on && fades) burden.time -= std::min(burden.time, time);
  };
  add(local_burden_);
  for (auto& successor : successors_) add(successor.burden);
  looked_ = now;
}

void SpoolRing::set_burdens(bool is_full) {
  const bool counts = is_full && is_any_starved();
  local_burden_.is_on = counts && has_local() && blocks(local_needs());
  for (auto& successor : successors_)
    successor.burden.is_on = counts && !successor.is_dropped && blocks(successor.sent);
}

void SpoolRing::drop_local() {
  if (!exchange(slot().reader, number(RelayReader::reading), number(RelayReader::dropped))) return;
  place_.on_drop();
  raise(place_.board.news);
}

void SpoolRing::drop_slow_readers() {
  if (local_burden_.is_on && local_burden_.time >= place_.patience / 2) drop_local();
  for (auto& successor : successors_) {
    if (!successor.burden.is_on || successor.burden.time < place_.patience) continue;
    successor.is_dropped = true;
    place_.on_drop();
    raise(place_.board.news);
  }
}

std::uint64_t SpoolRing::await_room(RelayClock::time_point until) {
  for (;;) {
    const std::uint32_t seen = place_.board.moves;
    bool has_reader = false;
    {
      const Lock lock(mutex_);
      add_time();
      set_burdens(room() == 0);
      drop_slow_readers();
      if (const std::uint64_t bytes = room(); bytes > 0) {
        set_burdens(false);
        return bytes;
      }
      has_reader = bounds().has_reader;
    }
    const auto left = until - place_.now();
    if (left <= RelayClock::duration()) return 0;
    await_raise(place_.board.moves, seen,
                within(left, has_reader ? k_look_interval : k_step_without_reader));
  }
}

Status SpoolRing::write(std::span<const std::byte> data) {
  const std::uint64_t at = watermark();
  {
    const Lock lock(mutex_);
    low_ = std::max(low_, difference(at + data.size(), place_.ring));
    slot().low = low_;
  }
  // The other half of RelayedSource::read_ring()'s: `low` is seen before what is overwritten.
  full_fence();
  TRY(in_parts(place_, at, data, [](int fd, const void* from, std::size_t bytes, off_t offset) {
    return ::pwrite(fd, from, bytes, offset);
  }));
  {
    const Lock lock(mutex_);
    watermark_ = at + data.size();
    slot().watermark = watermark_;
  }
  raise(place_.board.news, news_of(at, at + data.size()));
  return {};
}

// In small steps: what is granted can be overwritten, so late successors find it gone.
std::uint64_t SpoolRing::grant(RelayClock::time_point until) {
  {
    const Lock lock(mutex_);
    is_written_ = true;
  }
  const std::uint64_t room = std::min(await_room(until), std::max(k_local_block, place_.ring / 16));
  const Lock lock(mutex_);
  low_ = std::max(low_, difference(watermark_ + room, place_.ring));
  slot().low = low_;
  return watermark_ + room;
}

void SpoolRing::advance(std::uint64_t written) {
  {
    const Lock lock(mutex_);
    watermark_ = std::max(watermark_, written);
    slot().watermark = watermark_;
  }
  raise(place_.board.news);
}

void SpoolRing::end() {
  {
    const Lock lock(mutex_);
    size_ = watermark_;
    slot().is_whole = number(RelayStream::ended);
  }
  raise(place_.board.news);
}

void SpoolRing::give_up(const std::string& why) {
  {
    const Lock lock(mutex_);
    why_ = why;
    set_field(slot().why, why);
    slot().state = number(RelaySlotState::over);
  }
  raise(place_.board.news);
}

std::unique_ptr<RingReader> SpoolRing::join(std::uint64_t offset) {
  std::unique_ptr<RingReader> reader;
  {
    const Lock lock(mutex_);
    if (offset < low_) return nullptr;
    successors_.push_front(Successor{offset});
    reader = std::make_unique<RingReader>(*this, successors_.begin());
  }
  raise(place_.board.moves);
  return reader;
}

RingReader::~RingReader() {
  {
    const Lock lock(ring_.mutex_);
    ring_.successors_.erase(successor_);
  }
  raise(ring_.place_.board.moves);
}

RingReader::State RingReader::state() const {
  if (successor_->is_dropped) return State::dropped;
  if (successor_->sent < ring_.watermark_) return State::more;
  if (successor_->sent == ring_.size_) return State::end;
  return ring_.why_ ? State::over : State::nothing;
}

RingReader::State RingReader::await(RelayClock::time_point until) {
  auto& news = ring_.place_.board.news;
  for (;;) {
    const std::uint32_t seen = news;
    {
      const Lock lock(ring_.mutex_);
      if (const State now = state(); now != State::nothing) return now;
    }
    const auto left = until - ring_.place_.now();
    if (left <= RelayClock::duration()) return State::nothing;
    await_raise(news, seen, within(left, milliseconds(1000)));
  }
}

bool RingReader::is_dropped() const {
  const Lock lock(ring_.mutex_);
  return successor_->is_dropped;
}

bool RingReader::has_all() const {
  const Lock lock(ring_.mutex_);
  return successor_->sent == ring_.size_;
}

std::string RingReader::why() const {
  const Lock lock(ring_.mutex_);
  return ring_.why_.value_or("");
}

Result<std::size_t> RingReader::read(std::span<std::byte> into) {
  std::uint64_t from = 0;
  {
    const Lock lock(ring_.mutex_);
    from = successor_->sent;
    into = into.first(std::min<std::uint64_t>(into.size(), difference(ring_.watermark_, from)));
  }
  TRY(in_parts(ring_.place_, from, into, [](int fd, void* to, std::size_t bytes, off_t offset) {
    return ::pread(fd, to, bytes, offset);
  }));
  const Lock lock(ring_.mutex_);
  if (ring_.low_ > from) return Error{ETIMEDOUT, "it was overtaken"};
  return into.size();
}

void RingReader::advance(std::size_t bytes) {
  {
    const Lock lock(ring_.mutex_);
    successor_->sent += bytes;
  }
  raise(ring_.place_.board.moves);
}

}  // namespace nodestage
