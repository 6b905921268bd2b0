#include "daemon/worker/spool/item_relay.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

namespace {}  // namespace

// Why no more will come, or may be written; "": it will, or may.
std::string RelayedTree::ended() const {
  const RelaySlot& slot = *place_.slot;
  const RelayBoard& board = *place_.board;
  if (slot.reader == number(RelayReader::dropped))
    return board_text(slot.why, sizeof slot.why, k_relay_lagged);
  if (slot.state == number(RelaySlotState::over))
    return board_text(slot.why, sizeof slot.why, "the relay has ended");
  if (board.is_off != 0) return board_text(board.why, sizeof board.why, "it is turned off");
  return {};
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
    why_ = ended();
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
    if (!ended().empty() || !meter_.check()) return false;
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
    const std::string why = ended();  // first: what is there at the end counts
    const bool is_whole = slot.is_whole == number(RelayStream::ended);
    const std::uint64_t end = slot.watermark;
    count();
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
  if (place_.slot->reader == number(RelayReader::dropped)) return broken(ended());
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

void RelayedTree::count() {
  const RelaySlot& slot = *place_.slot;
  const std::uint64_t nodes = std::max<std::uint64_t>(slot.from_nodes, from_nodes_);
  meter_.from_nodes += nodes - from_nodes_;
  if (nodes > from_nodes_) node_ = board_text(slot.upstream, sizeof slot.upstream, node_.c_str());
  from_nodes_ = nodes;
}

RelayedSource::Outcome RelayedTree::close() {
  if (!is_closed_) {
    is_closed_ = true;
    RelaySlot& slot = *place_.slot;
    count();
    if (slot.has_left != 0 && why_.empty()) why_ = board_text(slot.left, sizeof slot.left, "");
    slot.reader = number(RelayReader::closed);
    raise(place_.board->moves);
  }
  return {from_nodes_, node_, why_};
}

std::unique_ptr<RelayedSource> ItemRelay::begin(const std::string& path, int fd,
                                                const struct stat& info, std::uint64_t offset) {
  if (sources_ == nullptr || !sources_->qualifies(fd, info)) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    was_asked_ = true;
  }
  std::string why;
  if (const auto place = sources_->claim(path, info, meter_, why))
    return std::make_unique<RelayedSource>(*place, *sources_, meter_, offset);
  add({0, "", why});
  return nullptr;
}

std::unique_ptr<RelayedTree> ItemRelay::begin_directory(const std::string& path, int fd,
                                                        const struct stat& info,
                                                        std::uint64_t wanted) {
  if (sources_ == nullptr || !sources_->qualifies(fd, info)) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    was_asked_ = true;
  }
  std::string why;
  if (const auto place = sources_->claim_directory(path, info, wanted, meter_, why))
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
