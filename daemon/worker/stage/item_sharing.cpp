#include "daemon/worker/stage/item_sharing.hpp"

#include <algorithm>
#include <cerrno>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

void ItemProgress::begin() {
  const Lock lock(mutex_);
  state_ = ItemState::working;
  begun_ = Clock::now();
  note_.clear();
}

void ItemProgress::end(const Status& status) {
  // What the job changes from here on has a later ctime than what was staged.
  const std::uint64_t staged_ns = status ? pass_file_time() : 0;
  const Lock lock(mutex_);
  ended_ = Clock::now();
  staged_ns_ = staged_ns;
  state_ = status ? ItemState::done : ItemState::failed;
  if (!status) note_ = status.error().text();
  is_over_quota_ = !status && status.error().code == EDQUOT;
}

void ItemProgress::set_note(const std::string& text) {
  const Lock lock(mutex_);
  note_ = text;
}

void ItemProgress::add_note(const std::string& text) {
  const Lock lock(mutex_);
  if (text.empty() || note_.find(text) != std::string::npos) return;
  if (!note_.empty()) note_ += "; ";
  note_ += text;
}

void ItemProgress::set_kind(const std::string& kind) {
  const Lock lock(mutex_);
  kind_ = kind_.empty() || kind_ == kind ? kind : "sources";
}

void ItemProgress::set_destination(const std::string& destination) {
  const Lock lock(mutex_);
  destination_ = destination;
}

std::string ItemProgress::destination() const {
  const Lock lock(mutex_);
  return destination_;
}

ItemState ItemProgress::state() const {
  const Lock lock(mutex_);
  return state_;
}

void ItemProgress::fill(ItemRecord& record, Clock::time_point read_to, std::size_t sources) const {
  const Lock lock(mutex_);
  record.state = static_cast<std::uint32_t>(state_);
  if (is_over_quota_) record.flags |= k_item_over_quota;
  record.staged_ns = staged_ns_;
  const bool is_counted = sources > 1 && !kind_.empty();
  set_field(record.what, is_counted ? human_count(sources) + " × " + kind_ : kind_);
  set_field(record.note, shortened(note_, sizeof record.note - 1));
  if (!begun_) return;
  record.begun_ms = wall_ms(*begun_);
  record.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(ended_.value_or(Clock::now()) - *begun_)
          .count());
  // Something is read before, to learn the need: of a small source that is all.
  if (read_to != Clock::time_point()) record.read_to_ms = wall_ms(std::max(read_to, *begun_));
  if (ended_) record.ended_ms = wall_ms(*ended_);
}

namespace {

constexpr const char* k_read_only = "; it is read-only";  // so that EACCES is no riddle

}  // namespace

const SharedItem* decided_for(const StageOrder& order, std::size_t item) {
  for (const auto& shared : order.shared) {
    if (shared.item == item) return &shared;
  }
  return nullptr;
}

ItemSharing::ItemSharing(Asked asked, std::size_t item, const StageOrder& order)
    : order_(order),
      asked_(asked),
      decided_(asked == Asked::yes ? decided_for(order, item) : nullptr) {}

ShareRules ItemSharing::rules(unsigned umask, const std::atomic<bool>& stop) const {
  return {order_, umask, way_of(decided_->key), &stop};
}

std::string ItemSharing::judge(const SourceIdentity& before, const SourceIdentity& after,
                               const std::string& path) {
  const Lock lock(mutex_);
  if (!is_same(before, after) || before.key != decided_->key) {
    unkept_ = before.why_not.empty() ? "it was changed while it was read" : before.why_not;
  } else if (last_part(path) != last_part(decided_->path)) {
    unkept_ = "it has another name here";
  } else if (path.size() >= sizeof ItemRecord::destination) {
    unkept_ = "its path is too long for that";
  } else {
    is_whole_ = true;
  }
  return is_whole_ ? decided_->path : path;
}

void ItemSharing::set_linked() {
  const Lock lock(mutex_);
  is_linked_ = true;
}

bool ItemSharing::is_linked() const {
  const Lock lock(mutex_);
  return is_linked_;
}

bool ItemSharing::is_whole() const {
  const Lock lock(mutex_);
  return is_whole_;
}

bool ItemSharing::was_staged_for_it() const { return is_link() && decided_->elapsed_ms != 0; }

std::string ItemSharing::note() const {
  const Lock lock(mutex_);
  if (!is_asked()) return {};
  if (decided_ == nullptr)
    return std::string("not shared: its turn to be looked at did not come in time") + k_read_only;
  const std::string& note = decided_->note;
  switch (decided_->role) {
    case ShareRole::own:
      return note.empty() ? "" : "not shared: " + note + k_read_only;
    case ShareRole::lead:
      return (is_whole_ ? "shared: kept on this node for your further jobs" +
                              (note.empty() ? "" : ", " + note)
                        : "not shared: " + unkept_) +
             k_read_only;
    case ShareRole::link:
      if (!is_linked_) return {};
      if (was_staged_for_it()) return "shared: " + note + k_read_only;
      return "shared, already here" + (note.empty() ? "" : " (" + note + ")") + k_read_only;
  }
  return {};
}

}  // namespace nodestage
