// CopyScope: decides which entries of an output are copied.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <set>
#include <string>

#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/left_out.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/tree/hard_links.hpp"
#include "daemon/worker/tree/settled_file.hpp"

namespace nodestage {

enum class CopyWhat {
  all,
  missing,  // not what was delivered earlier and is still in the target as it was
  changed,  // while the job runs: what has changed since it was delivered, and is whole
};

// The files and links that a recovery has made for its outputs so far.
using MadeEntries = std::set<HardLinks::Id>;

// Borrows everything.
struct CopyScope {
  CopyWhat what = CopyWhat::all;
  DeliveredList* list = nullptr;         // unless `all`; `changed` continues it
  std::size_t item = 0;                  // the output's index in it
  const SettleRules* settled = nullptr;  // null: the usual ones
  OutputLinks* links = nullptr;          // null: all links are copied as they are
  bool syncs_all = false;  // `changed`: earlier deliveries may have left directories without a sync
  LeavesOut leaves_out = {};  // empty: nothing is left out
  // Unless null, only what is in it is replaced in the target. Anything else that has the name of
  // an entry is a fault, unless it has the same content.
  MadeEntries* replaces_only = nullptr;

  [[nodiscard]] bool is_early() const { return what == CopyWhat::changed; }

  [[nodiscard]] const SettleRules& rules() const {
    return settled != nullptr ? *settled : usual_settle_rules();
  }

  // Returns whether what looks as `there` may be replaced.
  [[nodiscard]] bool may_replace(const struct stat& there) const {
    return replaces_only == nullptr || replaces_only->contains(HardLinks::id(there));
  }

  // Returns whether the list has the entry as it looks in `info`.
  [[nodiscard]] bool is_noted(const std::string& path, const struct stat& info) const {
    return list != nullptr && list->has(item, path, info);
  }
};

}  // namespace nodestage
