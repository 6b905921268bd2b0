// CopyNotes: what is reported of a tree that was copied.
#pragma once

#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/unreadable_entries.hpp"

namespace nodestage {

// For several threads.
struct CopyNotes {
  OutLinks out_links;
  UnreadableEntries unreadable;
};

}  // namespace nodestage
