// ItemSharing: what the daemon has decided for a staged item that asks to be shared, and what has
// become of that (common/wire/shared_item.hpp). For any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "common/wire/worker_order.hpp"
#include "daemon/worker/share/share_key.hpp"

namespace nodestage {

// What was decided for a shared item of the request; null: nothing, so it is the job's own.
const SharedItem* decided_for(const StageOrder& order, std::size_t item);

class ItemSharing {
 public:
  enum class Asked { no, yes };  // the key `shared`

  ItemSharing(Asked asked, std::size_t item, const StageOrder& order);  // borrows the order

  [[nodiscard]] bool is_asked() const { return asked_ == Asked::yes; }
  [[nodiscard]] ShareRole role() const { return decided_ ? decided_->role : ShareRole::own; }
  [[nodiscard]] bool is_link() const { return role() == ShareRole::link; }
  [[nodiscard]] bool is_lead() const { return role() == ShareRole::lead; }
  // In the cache; only of an item that leads or links.
  [[nodiscard]] const std::string& path() const { return decided_->path; }
  // For the keys of an item that leads: the sources are looked at as they were when they were
  // identified.
  [[nodiscard]] ShareRules rules(unsigned umask, const std::atomic<bool>& stop) const;

  // Decides of an item that leads, when its sources were read, whether it can be kept, by what they
  // were before and after that. `path` is where it is staged. Returns the path that the job will
  // use.
  std::string judge(const SourceIdentity& before, const SourceIdentity& after,
                    const std::string& path);
  // The item is a link to path().
  void set_linked();

  // The job uses the item at path().
  [[nodiscard]] bool is_linked() const;
  // Another process has staged it there for this job; decided() says how much.
  [[nodiscard]] bool was_staged_for_it() const;
  [[nodiscard]] const SharedItem& decided() const { return *decided_; }
  // It was staged to be kept there, and can be.
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] std::string note() const;

 private:
  const StageOrder& order_;
  const Asked asked_;
  const SharedItem* const decided_;  // null for an item without `shared`

  mutable std::mutex mutex_;  // over what follows
  bool is_whole_ = false;
  bool is_linked_ = false;
  std::string unkept_ = "an earlier try of this job staged it";  // why it is not whole
};

}  // namespace nodestage
