// CopyNotes: what is reported of a tree that was copied.
#pragma once

#include "daemon/worker/copy/copy_listener.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/unreadable_entries.hpp"

namespace nodestage {

// For several threads.
struct CopyNotes {
  OutLinks out_links;
  UnreadableEntries unreadable;
  CopyListener* listener = nullptr;  // borrowed; null: nobody listens
};

}  // namespace nodestage
