#include "daemon/worker/stage/item_sharing.hpp"

#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

constexpr const char* k_read_only = "; it is read-only";  // so that EACCES is no riddle

using Lock = std::lock_guard<std::mutex>;

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
