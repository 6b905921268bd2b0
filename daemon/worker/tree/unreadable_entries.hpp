// UnreadableEntries: counts what is staged with a mode that keeps its owner, the job's user, from
// reading it, as in the source, or where only its group could read it.
#pragma once

#include <sys/stat.h>

#include <string>

#include "daemon/worker/tree/named_count.hpp"

namespace nodestage {

// For several threads.
class UnreadableEntries {
 public:
  // Counts it if `mode`, of the staged file or directory with its type, is such a mode.
  void look_at(const std::string& path, mode_t mode);

  // Returns a note for the user; "" if there are none.
  [[nodiscard]] std::string note() const;

 private:
  NamedCount found_;
};

}  // namespace nodestage
