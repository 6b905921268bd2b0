// CopyNotes: what is reported of a tree that was copied.
#pragma once

#include "daemon/worker/copy/copy_listener.hpp"
#include "daemon/worker/tree/named_count.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/unreadable_entries.hpp"

namespace nodestage {

// For several threads.
struct CopyNotes {
  OutLinks out_links;
  UnreadableEntries unreadable;
  NamedCount growing;                // files that became longer whenever they were copied
  CopyListener* listener = nullptr;  // borrowed; null: nobody listens
};

}  // namespace nodestage
