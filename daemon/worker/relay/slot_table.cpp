#include "daemon/worker/relay/slot_table.hpp"

#include <algorithm>
#include <utility>

#include "common/wire/status_file.hpp"
#include "daemon/worker/spool/board.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"

namespace nodestage {
namespace {

using Lock = std::lock_guard<std::mutex>;

// Of a job with more sources than that, a node that comes late may have to wait for a slot.
constexpr std::size_t k_most_past = 1024;

void give_up(RelayBoard& board, std::size_t i, const std::string& why) {
  set_field(board.slots[i].why, why);
  board.slots[i].state = number(RelaySlotState::over);
  raise(board.news);
}

}  // namespace

// What it said first counts: the rings lie by it.
std::size_t SlotTable::lanes() {
  if (lanes_ == 0) lanes_ = std::min<std::size_t>(basis_.board.lanes, k_relay_slots);
  return lanes_;
}

std::size_t SlotTable::count_in(RelaySlotState state) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < lanes(); ++i) count += is_in(i, state) ? 1U : 0U;
  return count;
}

void SlotTable::tend() {
  const Lock lock(mutex_);
  int taken = 0;
  for (std::size_t i = 0; i < lanes(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.is_retiring && entry.feed->has_ended()) release(i);
    if (!entries_[i].feed && is_in(i, RelaySlotState::asked)) taken += take_ask(i) ? 1 : 0;
  }
  note_asks(taken);
  if (lanes() == 0 || count_in(RelaySlotState::unused) > 0) {
    is_slot_wanted_ = false;
  } else if (is_slot_wanted_) {
    free_one();
  }
}

// The staging worker raises `asks` once for each slot that it has claimed, which may have been
// taken just before that, and a few times a second while it finds none.
void SlotTable::note_asks(int taken) {
  const std::uint32_t asks = basis_.board.asks;
  surplus_asks_ += static_cast<int>(asks - std::exchange(seen_asks_, asks)) - taken;
  if (surplus_asks_ <= 0 || basis_.board.staging_is_over != 0) return;
  surplus_asks_ = 0;
  is_slot_wanted_ = true;
}

// The staging worker's description is a claim like any other.
bool SlotTable::take_ask(std::size_t i) {
  const std::string path = field_text(slot(i).path);
  if (path.starts_with('/') && path.size() + 1 <= k_max_relay_path) {
    const bool is_directory = slot(i).kind == number(RelayKind::directory);
    const RelayKind kind = is_directory ? RelayKind::directory : RelayKind::file;
    begin(i, {path, slot(i).identity, 0, kind});
    return true;
  }
  give_up(basis_.board, i, "the slot has no path");
  return false;
}

void SlotTable::begin(std::size_t i, const RelayAsk& source) {
  const auto ring =
      ring_bytes(basis_.order.relay.window_bytes, static_cast<std::uint32_t>(lanes()));
  auto feed = std::make_shared<SlotFeed>(basis_, SlotFeed::Place{i, ring, source.kind}, source.path,
                                         source.identity);
  entries_[i] = Entry{feed, false, ++feeds_};
  if (basis_.threads.start([feed] { feed->run(); })) return;
  feed->fail("no thread can be started: the worker's limit of processes (worker.pids) is reached");
}

void SlotTable::release(std::size_t i) {
  if (entries_[i].feed->choice() == RelayChoice::alone) past_.push_back(entries_[i].feed);
  if (past_.size() > k_most_past) past_.pop_front();
  entries_[i] = Entry{};
  RelaySlot& at = slot(i);
  at.state = number(RelaySlotState::filling);  // this thread's alone
  clear(at);
  at.reader = number(RelayReader::none);
  at.state = number(RelaySlotState::unused);
  raise(basis_.board.news);
}

// Returns how much a slot may still be needed; below 0: it is in use.
int SlotTable::worth(std::size_t i) {
  const Entry& entry = entries_[i];
  const auto reader = slot(i).reader.load();
  const bool is_free = reader == number(RelayReader::none) || reader == number(RelayReader::closed);
  if (!entry.feed || entry.is_retiring || !is_free || entry.feed->ring().successors() > 0)
    return -1;
  if (entry.feed->ring().is_over() || !entry.feed->ring().has_beginning()) return 0;
  return reader == number(RelayReader::closed) ? 1 : 2;
}

void SlotTable::free_one() {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < lanes(); ++i) {
    if (entries_[i].is_retiring) return;  // one is on its way
    const auto order = [this](std::size_t at) { return std::pair(worth(at), entries_[at].age); };
    if (worth(i) >= 0 && (!least || order(i) < order(*least))) least = i;
  }
  if (!least) return;
  auto& reader = slot(*least).reader;
  if (!exchange(reader, number(RelayReader::closed), number(RelayReader::recycled)) &&
      !exchange(reader, number(RelayReader::none), number(RelayReader::recycled)))
    return;
  entries_[*least].is_retiring = true;
  entries_[*least].feed->stop();
}

// A directory's stream that has broken is asked for again.
bool SlotTable::has_feed_for(const RelayAsk& ask) {
  return std::any_of(entries_.begin(), entries_.end(), [&ask](const Entry& entry) {
    if (!entry.feed || entry.is_retiring || !entry.feed->is_for(ask)) return false;
    return ask.kind == RelayKind::file || !entry.feed->ring().is_over();
  });
}

// One source can have two: one that is over, or has lost its beginning, and a later one.
std::optional<JoinedFeed> SlotTable::join_feed(const RelayAsk& ask) {
  for (const Entry& entry : entries_) {
    if (!entry.feed || entry.is_retiring || !entry.feed->is_for(ask)) continue;
    if (entry.feed->choice() == RelayChoice::alone) return JoinedFeed{entry.feed, nullptr};
    if (entry.feed->ring().is_over()) continue;
    if (auto reader = entry.feed->ring().join(ask.offset))
      return JoinedFeed{entry.feed, std::move(reader)};
  }
  return join_past(ask);
}

std::optional<JoinedFeed> SlotTable::join_past(const RelayAsk& ask) const {
  const auto found = std::find_if(past_.begin(), past_.end(),
                                  [&ask](const auto& feed) { return feed->is_for(ask); });
  return found == past_.end() ? std::nullopt : std::optional(JoinedFeed{*found, nullptr});
}

// Returns whether it is claiming a slot, for what is not known yet.
bool SlotTable::is_staging_claiming() {
  for (std::size_t i = 0; i < lanes(); ++i) {
    if (entries_[i].feed) continue;
    if (is_in(i, RelaySlotState::filling) || is_in(i, RelaySlotState::asked)) return true;
  }
  return false;
}

// The staging worker may be about to claim a slot for the same source: then it shows in time that a
// slot of its own is `filling`.
bool SlotTable::claim(std::size_t i, const RelayAsk& ask) {
  RelaySlot& at = slot(i);
  if (!exchange(at.state, number(RelaySlotState::unused), number(RelaySlotState::filling)))
    return false;
  if (count_in(RelaySlotState::filling) > 1) {
    at.state = number(RelaySlotState::unused);
    return false;
  }
  at.identity = ask.identity;
  set_field(at.path, ask.path);
  at.state = number(RelaySlotState::serving);
  begin(i, ask);
  raise(basis_.board.news);
  return true;
}

// A directory's feed begins when the staging worker asks for it, which may have to write it.
Result<std::optional<JoinedFeed>> SlotTable::join(const RelayAsk& ask) {
  const Lock lock(mutex_);
  const bool is_file = ask.kind == RelayKind::file;
  // It can be a part of a file that is large enough.
  if (is_file && ask.identity.size < std::min(basis_.order.relay.least_bytes, k_least_of_whole))
    return Error{0, "it is smaller than what is relayed there"};
  if (auto joined = join_feed(ask)) return std::optional(std::move(*joined));
  if (has_feed_for(ask)) return Error{0, "it is not complete there, or its beginning is gone"};
  if (basis_.board.staging_is_over != 0) return Error{0, "its staging is over there"};
  if (!is_file) return std::optional<JoinedFeed>();
  const bool is_changing = is_staging_claiming();
  for (std::size_t i = 0; i < lanes() && !is_changing; ++i) {
    if (!entries_[i].feed && claim(i, ask)) return join_feed(ask);
  }
  if (lanes() > 0 && !is_changing) is_slot_wanted_ = true;
  return std::optional<JoinedFeed>();
}

void SlotTable::stop() {
  const Lock lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry.feed) entry.feed->stop();
  }
}

}  // namespace nodestage
