#include "daemon/worker/spool/item_relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

// A read far ahead waits for so long after the last one that was not.
constexpr std::chrono::milliseconds k_rest{500};
constexpr std::size_t k_least_part = std::size_t{64} << 10;
constexpr std::size_t k_most_part = std::size_t{1} << 20;
// The end of an archive that has its index there, which is read before anything else.
constexpr std::uint64_t k_tail = 512ULL << 10;
constexpr std::uint64_t k_jump = 64ULL << 20;  // more than is read ahead

// Returns false at the end of the file or on an error (errno).
bool read_all_at(int fd, std::uint64_t offset, std::span<std::byte> into) {
  const auto count = pread_all(fd, into, offset);
  errno = count ? EIO : count.error().code;
  return count && *count == into.size();
}

// Why no more will come, or may be written, of `size` bytes; "": it will, or may.
std::string why_ended(const RelayContext& place, std::uint64_t size = UINT64_MAX) {
  const RelaySlot& slot = *place.slot;
  const RelayBoard& board = *place.board;
  if (slot.reader == number(RelayReader::dropped))
    return board_text(slot.why, sizeof slot.why, k_relay_lagged);
  if (slot.state == number(RelaySlotState::over) && slot.watermark < size)
    return board_text(slot.why, sizeof slot.why, "the relay has ended");
  if (board.is_off != 0) return board_text(board.why, sizeof board.why, "it is turned off");
  return {};
}

}  // namespace

// While a thread reads from the spool, or waits.
class RelayedSource::Turn {
 public:
  Turn(RelayedSource& source, std::uint64_t offset) : source_(source) {
    const std::lock_guard lock(source_.mutex_);
    at_ = source_.turns_.insert(offset);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    const std::lock_guard lock(source_.mutex_);
    set_near(false);
    source_.turns_.erase(at_);
    source_.publish();
    if (source_.turns_.empty()) source_.idle_.notify_all();
  }

  // Under mutex_.
  void set_near(bool is_near) {
    source_.waiting_near_ += is_near ? 1U : 0U;
    source_.waiting_near_ -= is_near_ ? 1U : 0U;
    is_near_ = is_near;
  }

 private:
  RelayedSource& source_;
  std::multiset<std::uint64_t>::iterator at_;
  bool is_near_ = false;
};

RelayedSource::RelayedSource(const RelayContext& place, RelayedSources& sources, Meter& meter,
                             std::uint64_t offset)
    : place_(place),
      sources_(sources),
      meter_(meter),
      part_(std::clamp<std::size_t>(place.ring / 16, k_least_part, k_most_part)),
      highest_(offset),
      position_(offset) {
  place_.slot->position = offset;
  raise(place_.board->moves);
}

Result<bool> RelayedSource::fetch(std::uint64_t offset, std::span<std::byte> into,
                                  const std::atomic<bool>& given_up) {
  Turn turn(*this, offset);
  SilenceWatch watch(*place_.board, place_.silence);
  for (;;) {
    if (is_closed_) return stopped();
    const std::uint32_t seen = place_.board->news;
    // First: what is there at the end counts.
    const std::string end = why_ended(place_, place_.size);
    if (take(offset, into)) return true;
    {
      const std::lock_guard lock(mutex_);
      const Choice chosen = choose(offset, into.size(), end);
      turn.set_near(chosen == Choice::wait_near);
      if (chosen == Choice::original) return false;
    }
    TRY(meter_.check());
    if (given_up) return stopped();
    await_raise(place_.board->news, seen, k_news_step, news_at(offset + into.size()));
    if (!watch.is_silent()) continue;
    sources_.lose();
    const std::lock_guard lock(mutex_);
    give_up(k_relay_is_silent);
  }
}

bool RelayedSource::take(std::uint64_t offset, std::span<std::byte> into) {
  const bool has_read = is_there(offset, into.size()) && read_ring(offset, into);
  const std::lock_guard lock(mutex_);
  count();
  if (!has_read) return false;
  highest_ = std::max(highest_, offset + into.size());
  return true;
}

bool RelayedSource::is_there(std::uint64_t offset, std::size_t bytes) const {
  const RelaySlot& slot = *place_.slot;
  return slot.reader != number(RelayReader::dropped) && offset + bytes <= slot.watermark &&
         offset >= slot.low;
}

// What was overwritten meanwhile does not count.
bool RelayedSource::read_ring(std::uint64_t offset, std::span<std::byte> into) {
  const std::uint64_t first =
      std::min<std::uint64_t>(into.size(), place_.ring - offset % place_.ring);
  const auto at = [this](std::uint64_t o) { return spool_offset(place_.index, place_.ring, o); };
  const bool has_read = read_all_at(place_.spool_fd, at(offset), into.first(first)) &&
                        read_all_at(place_.spool_fd, at(offset + first), into.subspan(first));
  const int code = errno;
  full_fence();  // the bytes before `low`
  if (has_read) return offset >= place_.slot->low;
  const std::lock_guard lock(mutex_);
  give_up(std::string("the spool cannot be read: ") + std::strerror(code));
  return false;
}

// For what is not in the ring. Under mutex_.
RelayedSource::Choice RelayedSource::choose(std::uint64_t offset, std::size_t bytes,
                                            const std::string& ended) {
  if (!ended.empty()) give_up(ended);
  const std::uint64_t end = offset + bytes;
  if (end + k_tail > place_.size && offset > position_ + k_jump) return Choice::original;
  if (!lost_.empty()) {
    if (why_.empty()) why_ = lost_;
    return Choice::original;
  }
  if (offset < place_.slot->low) {
    if (why_.empty()) why_ = k_relay_lagged;
    return Choice::original;
  }
  if (is_near(end)) return Choice::wait_near;
  const bool may_wait = waiting_near_ > 0 || Clock::now() - moved_ < k_rest;
  return may_wait ? Choice::wait_far : Choice::original;
}

// Returns whether the relay worker gets there while nothing else is read. It gets ring_ahead()
// beyond the last of what was read, and gets at most a block more.
bool RelayedSource::is_near(std::uint64_t end) const {
  const std::uint64_t ahead = ring_ahead(place_.ring);
  return end <= position_ + ahead - ahead / 4;
}

void RelayedSource::give_up(const std::string& why) {
  if (lost_.empty()) lost_ = why;
}

void RelayedSource::read_original(std::uint64_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (is_near(offset + bytes)) highest_ = std::max(highest_, offset + bytes);
  publish();
}

void RelayedSource::skip_to(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  highest_ = std::max(highest_, offset);
  publish();
}

// The relay worker keeps a quarter of the ring before the position: a thread that reads before the
// others holds it back. Under mutex_.
void RelayedSource::publish() {
  std::uint64_t position = highest_;
  if (!turns_.empty()) position = std::min(position, *turns_.begin() + place_.ring / 8);
  if (is_closed_ || position <= position_) return;
  position_ = position;
  moved_ = Clock::now();
  place_.slot->position = position;
  raise(place_.board->moves);
}

void RelayedBytes::count(const RelaySlot& slot, Meter& meter) {
  const std::uint64_t storage = std::max<std::uint64_t>(slot.from_storage, from_storage);
  const std::uint64_t nodes = std::max<std::uint64_t>(slot.from_nodes, from_nodes);
  meter.from_storage += storage - from_storage;
  meter.from_nodes += nodes - from_nodes;
  if (nodes > from_nodes) node = board_text(slot.upstream, sizeof slot.upstream, node.c_str());
  from_storage = storage;
  from_nodes = nodes;
}

// Under mutex_.
void RelayedSource::count() {
  if (is_closed_) return;
  const RelaySlot& slot = *place_.slot;
  bytes_.count(slot, meter_);
  if (slot.has_left != 0 && left_.empty()) left_ = board_text(slot.left, sizeof slot.left, "");
}

RelayedSource::Outcome RelayedSource::close() {
  std::unique_lock lock(mutex_);
  if (!is_closed_) {
    count();
    is_closed_ = true;
    raise(place_.board->news);  // wakes the threads that wait here
    idle_.wait(lock, [this] { return turns_.empty(); });
    place_.slot->reader = number(RelayReader::closed);
    raise(place_.board->moves);
  }
  return {bytes_.from_nodes, bytes_.node, why_.empty() ? left_ : why_};
}

bool RelayedTree::is_silent(SilenceWatch& watch) {
  if (!watch.is_silent()) return false;
  sources_.lose();
  return true;
}

Result<RelayedTree::Part> RelayedTree::await_part() {
  SilenceWatch watch(*place_.board, place_.silence);
  for (;;) {
    const std::uint32_t seen = place_.board->news;
    const std::uint32_t state = place_.slot->state;
    if (state == number(RelaySlotState::serving)) return Part::reads;
    if (state == number(RelaySlotState::writing)) return Part::writes;
    why_ = why_ended(place_);
    if (!why_.empty()) return Part::alone;
    TRY(meter_.check());
    await_raise(place_.board->news, seen, k_news_step);
    if (!is_silent(watch)) continue;
    why_ = k_relay_is_silent;
    return Part::alone;
  }
}

bool RelayedTree::write(std::span<const std::byte> data) {
  SilenceWatch watch(*place_.board, place_.silence);
  while (!data.empty()) {
    const std::uint32_t seen = place_.board->news;
    const std::uint64_t granted = place_.slot->granted;
    if (!why_ended(place_).empty() || !meter_.check()) return false;
    if (granted > position_) {
      if (!put(data, granted)) return false;
      continue;
    }
    await_raise(place_.board->news, seen, k_news_step);
    if (is_silent(watch)) return false;
  }
  return true;
}

bool RelayedTree::put(std::span<const std::byte>& data, std::uint64_t granted) {
  const std::uint64_t most = std::min(granted - position_, place_.ring - position_ % place_.ring);
  const auto part = data.first(std::min<std::uint64_t>(data.size(), most));
  const auto at = spool_offset(place_.index, place_.ring, position_);
  if (!pwrite_all(place_.spool_fd, part, at)) return false;
  position_ += part.size();
  place_.slot->written = position_;
  raise(place_.board->moves);
  data = data.subspan(part.size());
  return true;
}

void RelayedTree::end() {
  place_.slot->is_ended = number(RelayStream::ended);
  raise(place_.board->moves);
}

void RelayedTree::refuse() {
  if (!is_closed_) place_.slot->is_ended = number(RelayStream::none);
}

Error RelayedTree::broken(const std::string& why) {
  has_broken_ = true;
  is_refused_ = place_.slot->is_whole == number(RelayStream::none);
  why_ = why;
  return Error{ECANCELED, why};
}

Result<std::size_t> RelayedTree::read(std::span<std::byte> into) {
  SilenceWatch watch(*place_.board, place_.silence);
  for (;;) {
    const RelaySlot& slot = *place_.slot;
    const std::uint32_t seen = place_.board->news;
    const std::string why = why_ended(place_);  // first: what is there at the end counts
    const bool is_whole = slot.is_whole == number(RelayStream::ended);
    const std::uint64_t end = slot.watermark;
    bytes_.count(slot, meter_);
    if (end > position_)
      return take(into.first(std::min<std::uint64_t>(into.size(), end - position_)));
    if (is_whole) return std::size_t{0};
    if (!why.empty()) return broken(why);
    TRY(meter_.check());
    await_raise(place_.board->news, seen, k_news_step);
    if (is_silent(watch)) return broken(k_relay_is_silent);
  }
}

// What was overwritten meanwhile does not count.
Result<std::size_t> RelayedTree::take(std::span<std::byte> into) {
  if (place_.slot->reader == number(RelayReader::dropped)) return broken(why_ended(place_));
  const std::uint64_t to_end = place_.ring - position_ % place_.ring;
  const auto part = into.first(std::min<std::uint64_t>(into.size(), to_end));
  const auto count =
      pread_all(place_.spool_fd, part, spool_offset(place_.index, place_.ring, position_));
  if (!count || *count < part.size())
    return broken("the spool cannot be read: " +
                  std::string(std::strerror(count ? EIO : count.error().code)));
  full_fence();  // the bytes before `low`
  if (position_ < place_.slot->low) return broken(k_relay_lagged);
  position_ += part.size();
  place_.slot->position = position_;
  raise(place_.board->moves);
  return part.size();
}

RelayedSource::Outcome RelayedTree::close() {
  if (!is_closed_) {
    is_closed_ = true;
    RelaySlot& slot = *place_.slot;
    bytes_.count(slot, meter_);
    if (slot.has_left != 0 && why_.empty()) why_ = board_text(slot.left, sizeof slot.left, "");
    slot.reader = number(RelayReader::closed);
    raise(place_.board->moves);
  }
  return {bytes_.from_nodes, bytes_.node, why_};
}

bool ItemRelay::may_ask(int fd, const struct stat& info, std::uint64_t whole) {
  if (sources_ == nullptr || !sources_->qualifies(fd, info, whole)) return false;
  const std::lock_guard lock(mutex_);
  return was_asked_ = true;
}

std::unique_ptr<RelayedSource> ItemRelay::begin(const std::string& path, int fd,
                                                const struct stat& info, std::uint64_t offset,
                                                std::uint64_t whole) {
  if (!may_ask(fd, info, whole)) return nullptr;
  std::string why;
  if (const auto place = sources_->claim({path, identity_of(info), RelayKind::file}, meter_, why))
    return std::make_unique<RelayedSource>(*place, *sources_, meter_, offset);
  add({0, "", why});
  return nullptr;
}

std::unique_ptr<RelayedTree> ItemRelay::begin_directory(const std::string& path, int fd,
                                                        const struct stat& info,
                                                        std::uint64_t wanted) {
  if (!may_ask(fd, info)) return nullptr;
  std::string why;
  const auto identity = directory_identity_of(info, wanted);
  if (const auto place = sources_->claim({path, identity, RelayKind::directory}, meter_, why))
    return std::make_unique<RelayedTree>(*place, *sources_, meter_);
  add({0, "", why});
  return nullptr;
}

void ItemRelay::add(const RelayedSource::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = outcome.why;
  if (outcome.from_nodes <= from_node_) return;
  from_node_ = outcome.from_nodes;
  node_ = outcome.node;
}

bool ItemRelay::was_asked() const {
  const std::lock_guard lock(mutex_);
  return was_asked_;
}

std::string ItemRelay::note() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bytes = meter_.from_nodes;
  std::string from = bytes == 0 ? ""
                                : human_bytes(bytes) + " from " +
                                      (node_.empty() ? "other nodes" : "node " + node_);
  if (why_.empty()) return from;
  return from.empty() ? "read from the file system, not from other nodes: " + why_
                      : from + ", the rest from the file system: " + why_;
}

}  // namespace nodestage
